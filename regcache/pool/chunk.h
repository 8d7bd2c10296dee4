// Chunks: a pool takes memory in chunks. A chunk lies in one region and consists of whole units of
// the window, so that a table over these units gives the chunk of any address.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "allocator/os/cache_line.h"
#include "include/rdmalloc/rdmalloc.h"

namespace rdmalloc {

class PoolBuffers;

// The record of a free buffer in stocks and shelves. It lies outside the buffer, because a device
// may write there. It is one word: what was just written is soon read again, which is slow in
// pieces of another size.
struct PoolItem {
  PoolItem() = default;
  PoolItem(uint32_t chunk, uint32_t index) : word(uint64_t{chunk} << 32 | index) {}
  uint32_t chunk() const { return static_cast<uint32_t>(word >> 32); }
  uint32_t index() const { return static_cast<uint32_t>(word); }

  uint64_t word;
};

enum class BufferState : uint8_t {
  kFree,
  kOut,
  kLeftOut  // never handed out: no memory region covers it, or the program destroyed its pages
};

// The keys of a pool without a domain.
inline constexpr rdm_mr kNoKey{};

// Written by the thread that adds it to a pool, before the table of units refers to it, and when
// its pool is closed; `states` and `keys` change in between.
struct alignas(os::kCacheLine) Chunk {
  static constexpr unsigned kUnitShift = 16;
  static constexpr size_t kUnit = size_t{1} << kUnitShift;
  // So that an offset has 32 bits.
  static constexpr size_t kMost = size_t{1} << 31;

  uintptr_t base;
  uint64_t reciprocal;           // of `stride`, times 2^32, rounded up
  uint32_t stride;               // bytes from one buffer to the next
  uint32_t count;                // of buffers, the left-out ones included
  std::atomic<uint8_t>* states;  // see state_of()
  uint32_t state_shift;
  // `all_keys`; null once the program destroyed or shut pages here (see ChunkTable), so that each
  // buffer is checked before its key is given.
  std::atomic<const rdm_mr*> keys;
  uint32_t key_mask;  // 0: one key for all
  uint32_t number;
  std::atomic<const PoolBuffers*> owner;  // null: of no pool
  Chunk* next;                            // of the same pool; or free for any
  size_t bytes;
  const rdm_mr* all_keys;  // of each buffer, or one for all
  uint32_t usable;
  int node;

  void set_stride(uint32_t bytes_each) {
    stride = bytes_each;
    reciprocal = ((uint64_t{1} << 32) + bytes_each - 1) / bytes_each;
  }

  // The number of the buffer that starts there; false: none does. The product is exact for
  // multiples of the stride; for others its value does not matter.
  bool index_of(const void* address, uint32_t* index) const {
    const uintptr_t offset = reinterpret_cast<uintptr_t>(address) - base;
    if (offset >= kMost) return false;
    const auto at = static_cast<uint32_t>((offset * reciprocal) >> 32);
    *index = at;
    return at < count && uint64_t{at} * stride == offset;
  }

  char* address_of(uint32_t index) const {
    return reinterpret_cast<char*>(base + uint64_t{index} * stride);
  }
  // A cache line apart if buffers are long, so that threads that use neighbouring buffers do not
  // share a line. For short buffers that would cost as much memory as the buffers themselves.
  std::atomic<uint8_t>& state_of(uint32_t index) const {
    return states[size_t{index} << state_shift];
  }
  static uint32_t state_shift_for(size_t stride) {
    constexpr size_t kStridesInState = 64;
    constexpr uint32_t kLineShift = 6;
    uint32_t shift = 0;
    while (shift < kLineShift && kStridesInState << (shift + 1) <= stride) ++shift;
    return shift;
  }
  const rdm_mr& key_of(uint32_t index) const { return all_keys[index & key_mask]; }
};

}  // namespace rdmalloc
