// Who registers a region of a domain, and when; and how all of a region goes.
#include <pthread.h>
#include <string.h>

#include <algorithm>

#include "allocator/os/clock.h"
#include "allocator/os/futex.h"
#include "allocator/os/memory.h"
#include "allocator/os/thread.h"
#include "regcache/domain/domain.h"
#include "regcache/domain/in_backend.h"

namespace rdmalloc {
namespace {

// After the backend has put a thread off, that thread does not ask again for this long.
constexpr uint64_t kPutOffNs = 100'000'000;

// Another thread may take the room that was made for a region.
constexpr int kMostReclaims = 2;

// Bounds the retries while the program keeps changing its mappings.
constexpr int kMostTries = 8;

// How long to wait for a backend that asks to come later: forking a large heap can take this long.
constexpr uint64_t kLongestWaitNs = 5'000'000'000;
constexpr uint64_t kWaitStepNs = 200'000;

}  // namespace

bool Domain::is_in_backend() { return InBackend::is_here; }

int Domain::register_region(const Region& region, Caller caller) {
  if (!entrance_.enter()) return RDM_NOT_REGISTERED;
  // From here on the slot is not reused: see keeps().
  const int status = region.is_empty() ? int{RDM_NOT_REGISTERED} : register_entered(region, caller);
  entrance_.leave();
  return status;
}

// Deregisters the remains of regions that no longer exist; no other thread may do it.
void Domain::retire_leftovers() {
  for (size_t i = 0; i < source_->regions().size(); ++i) {
    const Region& region = source_->regions()[i];
    if (region.is_empty()) retire_region(region, Caller::kLookup);
  }
}

// Inside malloc, the thread that calls the backend may be unable to register: it does not issue to
// the ring, or has its own descriptors. The next thread that registers foreign memory, and thus
// can, catches up.
void Domain::register_missed() {
  if (!has_missed_.load(std::memory_order_relaxed) || !has_missed_.exchange(false)) return;
  for (size_t i = 0; i < source_->regions().size(); ++i) {
    const Region& region = source_->regions()[i];
    if (!region.is_empty()) (void)register_entered(region, Caller::kRegistrar);
  }
  retries_->note_work();
}

int Domain::register_entered(const Region& region, Caller caller) {
  if (!mrs_.takes(region) || has_no_leave_of(caller)) return RDM_OK;
  KeyEntry& entry = entry_of(region);
  const uint32_t before = entry.state.load(std::memory_order_acquire);
  const bool is_asked_for = caller == Caller::kLookup || before == kAsked;
  // Registering would place its pages on the registering thread's node, so wait until the program
  // wants its key.
  if (region.by_touch && !is_asked_for) return RDM_OK;
  // A region that was asked for and refused is retried by the registrar.
  if (registers_when_asked() && !is_asked_for && before != kRefused) return RDM_OK;
  if (caller == Caller::kMalloc && !may_run_in_malloc()) return RDM_BACKEND_LATER;
  if (caller == Caller::kMalloc && !is_replayed_.load(std::memory_order_seq_cst)) return RDM_OK;
  uint64_t waited_ns = 0;
  for (;;) {
    uint32_t state = entry.state.load(std::memory_order_acquire);
    if (state == kRegistered) return RDM_OK;
    if (state == kRefused && !refusals_.may_try_again(region, entry, caller)) return entry.refusal;
    if (state == kBusy) {
      if (caller != Caller::kLookup || entry.was_refused()) return RDM_NOT_REGISTERED;
      os::wait_while(entry.state, kBusy);
    } else if (is_put_off() && !entry.was_refused()) {
      return RDM_BACKEND_LATER;
    } else if (entry.state.compare_exchange_strong(state, kBusy, std::memory_order_acq_rel)) {
      if (callers_only_) retire_leftovers();
      const int status = register_claimed(region, entry, caller);
      os::wake_all(entry.state);
      if (status != RDM_OK && caller == Caller::kMalloc) has_missed_ = true;
      if (status != RDM_BACKEND_LATER) return status;
      if (!waits_for_backend(caller, &waited_ns)) return status;
    }
  }
}

// A backend that runs in malloc may put a thread off permanently, for example one that does not
// issue to a single-issuer ring; asking again at each lookup would cost a system call. Other
// backends put threads off only briefly, after a fork.
bool Domain::is_put_off() const {
  return may_run_in_malloc() && put_off_thread_ == static_cast<uintptr_t>(pthread_self()) &&
         os::now_ns() - put_off_at_ < kPutOffNs;
}

// Does not wait while this thread may hold a driver's lock: the fork waits for registrations, and
// one of them may be waiting for that lock.
bool Domain::waits_for_backend(Caller caller, uint64_t* waited_ns) {
  if (may_run_in_malloc()) {
    put_off_thread_ = static_cast<uintptr_t>(pthread_self());
    put_off_at_ = os::now_ns();
    return false;
  }
  const bool may_wait = caller == Caller::kLookup && !does_not_wait_;
  if (!may_wait || *waited_ns >= kLongestWaitNs) return false;
  os::sleep_for(kWaitStepNs);
  *waited_ns += kWaitStepNs;
  return true;
}

// This thread has set the entry's state to kBusy.
int Domain::register_claimed(const Region& region, KeyEntry& entry, Caller caller) {
  os::NoCancel no_cancel;
  const uint64_t started = os::now_ns();
  const size_t length = mrs_.length_of(region);
  // Populates in steps, before the backend does it all at once. If there is no room to register
  // ahead of need, the region is registered when it is asked for.
  const bool is_asked_for = caller == Caller::kLookup || entry.was_refused();
  const PagesFor who = is_asked_for ? PagesFor::kNow : PagesFor::kLater;
  if (mrs_.fills(region) && !source_->populate(region, who)) {
    if (!is_asked_for) return Refusals::put_off(entry, RDM_OUT_OF_BUDGET);
    complaints_.say("too little memory is left for pages that have not been touched yet");
    return refusals_.refuse_for_memory(region, entry);
  }
  int status = RDM_OK;
  bool again = false;
  int tries = kMostTries;
  int reclaims = caller == Caller::kMalloc ? 0 : kMostReclaims;
  do {
    const size_t retired = region.retired();
    const uint64_t before = count_changes();
    status = mrs_.register_region(region, entry);
    // The program may meanwhile have moved the memory that the backend refused, or changed its
    // access rights.
    again = status != RDM_OK &&
            (region.retired() != retired || (count_changes() != before && --tries > 0));
  } while (again || (reclaims-- > 0 && refusals_.makes_room(region, status, length)));
  counters_->registration_ns.fetch_add(os::now_ns() - started, std::memory_order_relaxed);
  if (status != RDM_OK) return refusals_.refuse(region, entry, status, caller);
  entry.forget_refusals();
  entry.state.store(kRegistered, std::memory_order_release);
  return RDM_OK;
}

// Enters for one region at a time: closing waits for one registration, not for all.
Domain::Turn Domain::take_turn(bool all_due) {
  Turn turn;
  for (size_t i = 0; i < source_->regions().size(); ++i) {
    const Region& region = source_->regions()[i];
    if (!entrance_.enter()) return {};
    const bool is_ours = !callers_only_;
    const bool is_left = is_ours && region.is_empty();
    if (all_due && !region.is_empty()) Refusals::make_due(entry_of(region));
    bool is_put_off = false;
    if (is_ours && !is_left) {
      is_put_off = register_entered(region, Caller::kRegistrar) == RDM_BACKEND_LATER;
      turn.next = std::min(turn.next, refusals_.next_try(region, entry_of(region)));
    }
    entrance_.leave();
    if (is_left) {
      retire_region(region, Caller::kRegistrar);
      is_put_off = keeps(region);
    }
    turn.is_done = turn.is_done && !is_put_off;
  }
  turn.is_done = foreign_->idle().deregister() && turn.is_done;
  if (!entrance_.enter()) return {};
  // A backend that runs in malloc refuses this thread permanently, so waiting is pointless.
  turn.is_done = turn.is_done || may_run_in_malloc();
  entrance_.leave();
  return turn;
}

bool Domain::wants_pages(const Region& region) const {
  if (registers_when_asked() || !entrance_.enter()) return false;
  const bool wants = mrs_.fills(region);
  entrance_.leave();
  return wants;
}

bool Domain::has_to_come(size_t bytes) const {
  if (!entrance_.enter()) return false;
  size_t sum = 0;
  for (size_t i = 0; !may_run_in_malloc() && i < source_->regions().size() && sum < bytes; ++i) {
    sum += bytes_to_come(source_->regions()[i]);
  }
  entrance_.leave();
  return sum >= bytes;
}

size_t Domain::bytes_to_come(const Region& region) const {
  if (region.is_empty() || !mrs_.takes(region) || has_no_leave_of(Caller::kRegistrar)) return 0;
  const uint32_t state = entry_of(region).state.load(std::memory_order_relaxed);
  const bool is_wanted = !registers_when_asked() && !region.by_touch;
  return state == kAsked || (state == kUnregistered && is_wanted) ? region.length : 0;
}

int Domain::deregister(const Region& region) {
  KeyEntry& entry = entry_of(region);
  const Piece whole{0, entry.length.exchange(0, std::memory_order_acq_rel), entry.key()};
  const uint32_t pieces = entry.pieces;
  entry.pieces = 0;
  entry.forget_refusals();
  entry.state.store(kUnregistered, std::memory_order_release);
  bool is_done = mrs_.deregister_piece(region, whole, false) == RDM_OK;
  for (uint32_t i = pieces; i-- > 0;) {
    is_done = mrs_.deregister_piece(region, entry.piece[i], false) == RDM_OK && is_done;
  }
  for (EarlyParts::Part part; early_.take_of(region.index, &part);) {
    is_done = mrs_.deregister_piece(region, {0, part.length, part.key}, false) == RDM_OK && is_done;
  }
  return is_done ? int{RDM_OK} : int{RDM_SYSTEM};
}

void Domain::retire_region(const Region& region, Caller caller) {
  if (!is_replayed_.load(std::memory_order_seq_cst) || !entrance_.enter()) return;
  const bool may_call = caller != Caller::kMalloc || may_run_in_malloc();
  // The slot may belong to another region by now.
  if (may_call && region.is_empty()) let_go_of(region, entry_of(region));
  entrance_.leave();
}

void Domain::release_for_fork() {
  if (!releases_at_fork_ || !entrance_.enter()) return;
  was_released_ = true;
  for (size_t i = 0; i < source_->regions().size(); ++i) {
    const Region& region = source_->regions()[i];
    if (entry_of(region).state.load(std::memory_order_acquire) == kRegistered ||
        early_.has_of(region.index)) {
      let_go_of(region, entry_of(region));
    }
  }
  (void)foreign_->idle().give_up(foreign_->idle().bytes(UINT64_MAX));
  entrance_.leave();
}

// Does nothing if another thread is working on the region.
void Domain::let_go_of(const Region& region, KeyEntry& entry) {
  uint32_t state = entry.state.load(std::memory_order_acquire);
  const bool has_some = state != kBusy && (state != kUnregistered || early_.has_of(region.index));
  const bool is_mine =
      has_some && entry.state.compare_exchange_strong(state, kBusy, std::memory_order_acq_rel);
  if (!is_mine) return;
  os::NoCancel no_cancel;
  // From here on lookups no longer find the key, unless it stays.
  const Piece whole{0, entry.length.exchange(0, std::memory_order_acq_rel), entry.key()};
  bool is_put_off = mrs_.deregister_piece(region, whole, true) == RDM_BACKEND_LATER;
  if (is_put_off) entry.length.store(whole.length, std::memory_order_release);
  while (!is_put_off && entry.pieces != 0) {
    is_put_off =
        mrs_.deregister_piece(region, entry.piece[entry.pieces - 1], true) == RDM_BACKEND_LATER;
    if (!is_put_off) --entry.pieces;
  }
  is_put_off = is_put_off || !let_go_of_early(region);
  if (!is_put_off) entry.forget_refusals();
  entry.state.store(is_put_off ? kRegistered : kUnregistered, std::memory_order_release);
  os::wake_all(entry.state);
}

}  // namespace rdmalloc
