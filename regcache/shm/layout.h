// What lies in a segment, and how many bytes of it each component takes. The structures that fill
// these bytes static_assert that they fit.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace rdmalloc::shm {

// Of the segment and of each process. The first is at offset 0, the second begins the process's
// part.
constexpr uint64_t kSegmentHeaderBytes = 256;
constexpr uint64_t kSlotBytes = 128;
constexpr uint64_t kListHeadBytes = 64;

// Of each ordered pair of processes. A head has room for a position and a lock, a tail is a
// position.
constexpr uint64_t kFifoBytes = 80;
constexpr uint64_t kWrapperBytes = 64;
constexpr uint64_t kEntryBytes = 8;
constexpr uint64_t kHeadBytes = 16;
constexpr uint64_t kTailBytes = 8;

// Before the bytes of a message.
constexpr uint64_t kFragmentHeaderBytes = 64;

// An allocation of its own: so many bytes for an allocator's bookkeeping, then the payload at the
// next multiple of the alignment. It takes their sum with the alignment wherever it begins, so that
// sizes do not depend on places.
constexpr uint64_t kBlockHeaderBytes = 32;
// Payloads are rounded up to this, so that the next header is aligned.
constexpr uint64_t kBlockUnit = 16;

// A free list of eager fragments is made in steps of its own allocations.
constexpr uint32_t kFirstStep = 8;
constexpr uint32_t kNextStep = 64;

struct Range {
  uint64_t offset;
  uint64_t size;
  uint64_t end() const { return offset + size; }
};

}  // namespace rdmalloc::shm
