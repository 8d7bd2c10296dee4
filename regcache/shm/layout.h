// What a segment contains, and how many bytes each component takes. The structures that fill these
// bytes static_assert that they fit.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace rdmalloc::shm {

// The headers of the segment and of each process. The first is at offset 0; the second begins the
// process's part.
constexpr uint64_t kSegmentHeaderBytes = 256;
constexpr uint64_t kSlotBytes = 128;
constexpr uint64_t kListHeadBytes = 64;

// For each ordered pair of processes. A head has room for a position and a lock; a tail is a
// position.
constexpr uint64_t kFifoBytes = 80;
constexpr uint64_t kWrapperBytes = 64;
constexpr uint64_t kEntryBytes = 8;
constexpr uint64_t kHeadBytes = 16;
constexpr uint64_t kTailBytes = 8;

// Precedes the bytes of a message.
constexpr uint64_t kFragmentHeaderBytes = 64;

// `unit` is a power of two.
constexpr uint64_t round_up(uint64_t bytes, uint64_t unit) {
  return (bytes + unit - 1) & ~(unit - 1);
}

// An allocation of its own: this many bytes for an allocator's bookkeeping, then the payload at the
// next multiple of the alignment. Its size is always the sum of both and the alignment, so that
// sizes do not depend on addresses.
constexpr uint64_t kBlockHeaderBytes = 32;
// Payloads are rounded up to this, so that the next header is aligned.
constexpr uint64_t kBlockUnit = 16;

struct Blocks {
  uint64_t alignment;
  uint64_t bytes_for(uint64_t payload) const {
    return kBlockHeaderBytes + round_up(payload, kBlockUnit) + alignment;
  }
  uint64_t payload_of(uint64_t block) const {
    return round_up(block + kBlockHeaderBytes, alignment);
  }
};

struct Range {
  uint64_t offset;
  uint64_t size;
  uint64_t end() const { return offset + size; }
};

}  // namespace rdmalloc::shm
