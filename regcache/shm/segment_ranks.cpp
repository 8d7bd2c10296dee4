// Whether all ranks are present: the agreement before the first message, and deaths after it.
#include <unistd.h>

#include "include/rdmalloc/shm.h"
#include "regcache/shm/clock.h"
#include "regcache/shm/failure.h"
#include "regcache/shm/segment.h"

namespace rdmalloc::shm {

namespace {

constexpr uint64_t kLookEveryNs = kLookEveryMs * 1'000'000;
constexpr uint32_t kRanksInALook = 256;

}  // namespace

// The first decision stands. It is one word, so that all ranks read the same.
void Segment::decide(int status, uint32_t rank) {
  uint64_t pending = 0;
  // acq_rel: a rank that reads that all are ready sees what each has written to its part.
  header()->verdict.compare_exchange_strong(pending, verdict::make(status, rank),
                                            std::memory_order_acq_rel);
  Doorbell(&header()->commits).ring();
}

int Segment::commit(int own) {
  if (own != RDM_OK) {
    decide(own, rank_);
  } else if (header()->ready.fetch_add(1, std::memory_order_acq_rel) + 1 == procs()) {
    decide(RDM_OK, rank_);
  }
  const int status = wait_for_verdict();
  is_committed_ = status == RDM_OK;
  // Every rank removes the name, because the rank that decided may have died since. Nobody waits
  // any longer for a rank that did not come in time.
  if (name_[0] == '\0') return status;
  if (status == RDM_OK || status == RDM_AGAIN) {
    file_.remove_name(name_);
    name_[0] = '\0';
  } else {
    remove_name_when_all_came();
  }
  return status;
}

// Reads the file instead of the mapping: see the class's comment.
bool Segment::is_anybody_to_come() const {
  uint32_t absent = 0;
  for (uint32_t rank = 0; rank < procs(); ++rank) {
    RankSlot slot;
    if (!file_.read(plan_.slot(rank), &slot, sizeof slot)) continue;
    if (slot.state.load(std::memory_order_relaxed) == RankSlot::kAbsent) ++absent;
  }
  return absent > header()->turned_away.load(std::memory_order_acquire);
}

void Segment::remove_name_when_all_came() {
  const uint64_t patience = timeout_ms_ < kKeepNameMs ? timeout_ms_ : kKeepNameMs;
  const uint64_t deadline = now_ms() + patience;
  while (is_anybody_to_come() && now_ms() < deadline) nap_ms(kNapMs);
  file_.remove_name(name_);
  name_[0] = '\0';
}

int Segment::wait_for_verdict() {
  const uint64_t deadline = now_ms() + timeout_ms_;
  Doorbell bell(&header()->commits);
  for (;;) {
    const uint32_t ticket = bell.enter();
    uint64_t decided = header()->verdict.load(std::memory_order_acquire);
    if (decided == 0) bell.sleep(ticket, kLookEveryNs);
    bell.leave();
    decided = header()->verdict.load(std::memory_order_acquire);
    if (decided != 0) return tell(decided);
    uint32_t dead = 0;
    if (find_dead_before_commit(&dead)) decide(RDM_PEER_DIED, dead);
    if (now_ms() >= deadline) decide(RDM_AGAIN, rank_);
  }
}

int Segment::tell(uint64_t decided) const {
  const int status = verdict::status(decided);
  const uint32_t rank = verdict::rank(decided);
  switch (status) {
    case RDM_OK:
      return RDM_OK;
    case RDM_AGAIN:
      return fail(status, "only %u of %u ranks came in time, as rank %u found",
                  header()->ready.load(std::memory_order_relaxed), procs(), rank);
    case RDM_PEER_DIED:
      return fail(status, "rank %u died, or gave up, before all ranks were ready", rank);
    case RDM_OUT_OF_BUDGET:
      return fail(status, "rank %u found no space for its %llu bytes of the segment in /dev/shm",
                  rank, static_cast<unsigned long long>(plan_.part(rank).size));
    default:
      return fail(status, "rank %u was not ready, with status %d", rank, status);
  }
}

// Reads the file instead of the mapping: see the class's comment.
bool Segment::find_dead_before_commit(uint32_t* dead) const {
  for (uint32_t rank = 0; rank < procs(); ++rank) {
    RankSlot slot;
    if (rank == rank_ || !file_.read(plan_.slot(rank), &slot, sizeof slot)) continue;
    const bool is_there = slot.state.load(std::memory_order_relaxed) == RankSlot::kAttached;
    // The creator was present before its part existed.
    if (!is_there && rank != header()->creator) continue;
    if (!runs(rank, is_there ? slot.process : header()->maker)) {
      *dead = rank;
      return true;
    }
  }
  return false;
}

// The lock alone is not enough: a process loses it when it closes any descriptor of the file, and
// does not see its own. The process table alone is not enough either: it does not reach across PID
// namespaces.
bool Segment::runs(uint32_t rank, const Process& process) const {
  return file_.is_locked(rank) || is_seen_running(process, self_);
}

bool Segment::is_alive(uint32_t rank) const {
  const RankSlot* slot = this->slot(rank);
  return slot->state.load(std::memory_order_acquire) == RankSlot::kAttached &&
         runs(rank, slot->process);
}

uint32_t Segment::look_for_dead_now_and_then(uint64_t now) {
  const uint32_t known = lost();
  uint64_t last = time_of_look_.load(std::memory_order_relaxed);
  if (known != 0 || now - last < kLookEveryMs ||
      !time_of_look_.compare_exchange_strong(last, now, std::memory_order_relaxed)) {
    return known;
  }
  return look_for_dead();
}

uint32_t Segment::look_for_dead() {
  const uint32_t looks = procs() < kRanksInALook ? procs() : kRanksInALook;
  for (uint32_t i = 0; i < looks; ++i) {
    const uint32_t rank = next_look_.fetch_add(1, std::memory_order_relaxed) % procs();
    if (rank == rank_ || has_left(rank) || is_alive(rank)) continue;
    if (has_left(rank)) continue;  // it has left between the two checks
    uint32_t nobody = 0;
    header()->lost.compare_exchange_strong(nobody, rank + 1, std::memory_order_acq_rel);
    return lost();
  }
  return 0;
}

bool Segment::is_alone() const {
  for (uint32_t rank = 0; rank < procs(); ++rank) {
    if (rank != rank_ && !has_left(rank)) return false;
  }
  return procs() > 1;
}

}  // namespace rdmalloc::shm
