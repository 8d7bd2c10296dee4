#include "regcache/shm/presence.h"

namespace rdmalloc::shm {

namespace {

constexpr uint32_t kRanksInALook = 256;

}  // namespace

// The lock alone is not enough: a process loses it when it closes any descriptor of the file, and
// does not see its own. The process table alone is not enough either: it does not reach across PID
// namespaces.
bool Presence::runs(uint32_t rank, const Process& process) const {
  return mapping_.file.is_locked(rank) || is_seen_running(process, mapping_.self);
}

bool Presence::find_dead_before_commit(uint32_t* dead) const {
  const SegmentHeader* const header = mapping_.header();
  for (uint32_t rank = 0; rank < mapping_.procs(); ++rank) {
    RankSlot slot;
    if (rank == mapping_.rank ||
        !mapping_.file.read(mapping_.plan.slot(rank), &slot, sizeof slot)) {
      continue;
    }
    const bool is_there = slot.state.load(std::memory_order_relaxed) == RankSlot::kAttached;
    // The creator was present before its part existed.
    if (!is_there && rank != header->creator) continue;
    if (!runs(rank, is_there ? slot.process : header->maker)) {
      *dead = rank;
      return true;
    }
  }
  return false;
}

bool Presence::is_anybody_to_come() const {
  uint32_t absent = 0;
  for (uint32_t rank = 0; rank < mapping_.procs(); ++rank) {
    RankSlot slot;
    if (!mapping_.file.read(mapping_.plan.slot(rank), &slot, sizeof slot)) continue;
    if (slot.state.load(std::memory_order_relaxed) == RankSlot::kAbsent) ++absent;
  }
  return absent > mapping_.header()->turned_away.load(std::memory_order_acquire);
}

bool Presence::is_alive(uint32_t rank) const {
  const RankSlot* slot = mapping_.slot(rank);
  return slot->state.load(std::memory_order_acquire) == RankSlot::kAttached &&
         runs(rank, slot->process);
}

uint32_t Presence::look_for_dead_now_and_then(uint64_t now) {
  const uint32_t known = lost();
  uint64_t last = time_of_look_.load(std::memory_order_relaxed);
  if (known != 0 || now - last < kLookEveryMs ||
      !time_of_look_.compare_exchange_strong(last, now, std::memory_order_relaxed)) {
    return known;
  }
  return look_for_dead();
}

uint32_t Presence::look_for_dead() {
  const uint32_t procs = mapping_.procs();
  const uint32_t looks = procs < kRanksInALook ? procs : kRanksInALook;
  for (uint32_t i = 0; i < looks; ++i) {
    const uint32_t rank = next_look_.fetch_add(1, std::memory_order_relaxed) % procs;
    if (rank == mapping_.rank || has_left(rank) || is_alive(rank)) continue;
    if (has_left(rank)) continue;  // it has left between the two checks
    uint32_t nobody = 0;
    mapping_.header()->lost.compare_exchange_strong(nobody, rank + 1, std::memory_order_acq_rel);
    return lost();
  }
  return 0;
}

bool Presence::is_alone() const {
  const uint32_t procs = mapping_.procs();
  for (uint32_t rank = 0; rank < procs; ++rank) {
    if (rank != mapping_.rank && !has_left(rank)) return false;
  }
  return procs > 1;
}

}  // namespace rdmalloc::shm
