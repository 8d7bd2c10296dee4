#pragma once

#include <stdint.h>

#include <atomic>

#include "allocator/os/cache_line.h"

namespace rdmalloc::shm {

// A buffer of fixed size in the segment: this header, then the bytes. It belongs permanently to the
// process whose free list it comes from; its current holder may write it.
struct alignas(os::kCacheLine) Fragment {
  std::atomic<uint64_t> next;       // in an inbox: the offset of the next one; 0: none yet
  std::atomic<uint32_t> next_free;  // in a free list: the next one's index plus 1
  uint32_t owner;                   // these three are written once, at set-up
  uint32_t index;                   // in its free list
  uint32_t is_large;                // 1: it belongs to the list of max fragments
  uint64_t tag;
  uint64_t length;

  unsigned char* bytes() { return reinterpret_cast<unsigned char*>(this + 1); }
};
static_assert(sizeof(Fragment) == 64);

}  // namespace rdmalloc::shm
