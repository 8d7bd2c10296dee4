#pragma once

#include <stdint.h>

#include <atomic>

#include "allocator/os/cache_line.h"
#include "regcache/shm/doorbell.h"
#include "regcache/shm/layout.h"
#include "regcache/shm/plan.h"
#include "regcache/shm/process.h"

namespace rdmalloc::shm {

constexpr char kMagic[8] = {'r', 'd', 'm', ' ', 's', 'h', 'm', '\0'};
// Version of everything in a segment. Processes with another version are refused.
constexpr uint32_t kVersion = 1;

// What rdm_shm_commit() returns to all ranks, decided once: 0 until then, afterwards kDecided with
// the status and the rank that caused it.
namespace verdict {
constexpr uint64_t kDecided = uint64_t{1} << 63;
constexpr uint64_t make(int status, uint32_t rank) {
  return kDecided | static_cast<uint64_t>(static_cast<uint32_t>(status) & 0xffff) << 32 | rank;
}
constexpr int status(uint64_t verdict) { return static_cast<int>((verdict >> 32) & 0xffff); }
constexpr uint32_t rank(uint64_t verdict) { return static_cast<uint32_t>(verdict); }
}  // namespace verdict

// At offset 0. Members before `verdict` are written before the segment has a name, and are constant
// from then on.
struct SegmentHeader {
  char magic[8];
  uint32_t version;
  uint32_t header_bytes;
  uint64_t bytes;  // of the whole file
  Shape shape;
  Process maker;     // the creator; its slot also names it once its part exists
  uint32_t creator;  // rank
  uint32_t reserved;
  std::atomic<uint64_t> verdict;
  std::atomic<uint32_t> ready;        // number of ranks that committed
  std::atomic<uint32_t> lost;         // a rank that died after that, plus 1
  std::atomic<uint32_t> turned_away;  // number of ranks that came and could not join
  Doorbell::Words commits;            // for ranks waiting in rdm_shm_commit()
};
static_assert(sizeof(SegmentHeader) <= kSegmentHeaderBytes);

// At plan.slot(rank). Written by that rank alone, except for the bell.
struct RankSlot {
  enum State : uint32_t { kAbsent = 0, kEntering, kAttached, kDetached };
  Process process;  // valid from kAttached on
  std::atomic<uint32_t> state;
  // On its own line: peers read it with each message.
  alignas(os::kCacheLine) Doorbell::Words bell;
};
static_assert(sizeof(RankSlot) == kSlotBytes);

// Where the parts of one ring are. The receiver writes this before the segment is committed; both
// sides read it.
struct Wrapper {
  uint64_t queue;
  uint64_t head;
  uint64_t tail;
  uint32_t entries;
  uint32_t from;
  uint32_t to;
};
static_assert(sizeof(Wrapper) <= kWrapperBytes);

// A receiver's record of one sender: where its ring is. More rings may follow one day.
struct Fifo {
  uint64_t wrapper;
  uint32_t from;
  uint32_t to;
};
static_assert(sizeof(Fifo) <= kFifoBytes);

}  // namespace rdmalloc::shm
