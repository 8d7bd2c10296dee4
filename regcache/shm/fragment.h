#pragma once

#include <stdint.h>

#include <atomic>

namespace rdmalloc::shm {

// A buffer of fixed size in the segment: this header, then the bytes. Its owner, for ever, is the
// process whose free list it comes from; whoever holds it may write it.
struct alignas(64) Fragment {
  std::atomic<uint64_t> next;       // in an inbox: the offset of the one behind; 0: none yet
  std::atomic<uint32_t> next_free;  // in a free list: index of the next one, plus 1
  uint32_t owner;                   // these three: written once, when the segment is set up
  uint32_t index;                   // ... in its free list
  uint32_t is_large;                // 1: of the list of max fragments
  uint64_t tag;
  uint64_t length;

  unsigned char* bytes() { return reinterpret_cast<unsigned char*>(this + 1); }
};
static_assert(sizeof(Fragment) == 64);

}  // namespace rdmalloc::shm
