// How a domain registers regions, whole or in the pieces that the backend's limits require.
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

// Memory that is paged on demand is not pinned.
int Domain::charges_for(const Region& region) const {
  return region.kind == RegionKind::kPinned ? limits().charges : int{RDM_CHARGES_NOTHING};
}

bool Domain::takes(const Region& region) const {
  if (named_only_ && !region.exposed) return false;
  return region.kind == RegionKind::kPinned || device_.has(RDM_BACKEND_ON_DEMAND);
}

unsigned Domain::access_for(const Region& region) const {
  return region.exposed || share_heap_ ? access_ : access_ & ~kRemoteRights;
}

int Domain::register_region(const Region& region, Caller caller) {
  if (!enter()) return RDM_NOT_REGISTERED;
  // From here on the slot is not reused: see keeps().
  const int status = region.is_empty() ? int{RDM_NOT_REGISTERED} : register_entered(region, caller);
  leave();
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
  if (!takes(region) || has_no_leave_of(caller)) return RDM_OK;
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
    if (state == kRefused && !may_try_again(region, entry, caller)) return entry.refusal;
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
  const size_t length = registered_length(region);
  // Populates in steps, before the backend does it all at once. If there is no room to register
  // ahead of need, the region is registered when it is asked for.
  const bool is_asked_for = caller == Caller::kLookup || entry.was_refused();
  const PagesFor who = is_asked_for ? PagesFor::kNow : PagesFor::kLater;
  if (fills(region) && !source_->populate(region, who)) {
    if (!is_asked_for) return put_off(entry, RDM_OUT_OF_BUDGET);
    say("too little memory is left for pages that have not been touched yet");
    (void)refuse_as(Cause::kPassing, region, entry, RDM_OUT_OF_BUDGET);
    retries_->note_work();
    return RDM_OUT_OF_BUDGET;
  }
  int status = RDM_OK;
  bool again = false;
  int tries = kMostTries;
  int reclaims = caller == Caller::kMalloc ? 0 : kMostReclaims;
  do {
    const size_t retired = region.retired();
    const uint64_t before = count_changes();
    const bool is_whole = length <= limits().max_length && !has_hole(region, length);
    status =
        is_whole ? register_whole(region, entry, length) : register_pieces(region, entry, length);
    // The program may meanwhile have moved the memory that the backend refused, or changed its
    // access rights.
    again = status != RDM_OK &&
            (region.retired() != retired || (count_changes() != before && --tries > 0));
  } while (again || (reclaims-- > 0 && makes_room(region, status, length)));
  counters_->registration_ns.fetch_add(os::now_ns() - started, std::memory_order_relaxed);
  if (status != RDM_OK) return refuse(region, entry, status, caller);
  entry.forget_refusals();
  entry.state.store(kRegistered, std::memory_order_release);
  return RDM_OK;
}

// The heap takes precedence over registrations that are only kept for reuse.
bool Domain::makes_room(const Region& region, int status, size_t length) {
  if (status == RDM_OUT_OF_BUDGET) return device_.reclaim(charges_for(region), length);
  if (status != RDM_NOT_REGISTERED || !is_crowded()) return false;
  const size_t missing = missing_count(region);
  return missing == 0 || foreign_->give_up_count(missing);
}

// How many memory regions must be given up to register this region, or as much of it as the device
// could register without foreign memory.
size_t Domain::missing_count(const Region& region) const {
  size_t wanted = 0;
  for_each_piece(region, registered_length(region), [&](size_t, size_t) { return ++wanted != 0; });
  const size_t used = device_.count();
  const size_t foreign = is_crowded() ? foreign_->count() : 0;
  const size_t heap = used > foreign ? used - foreign : 0;
  wanted = std::min(wanted, limits().max_count > heap ? limits().max_count - heap : 0);
  const size_t left = limits().max_count > used ? limits().max_count - used : 0;
  return wanted > left ? wanted - left : 0;
}

bool Domain::is_crowded() const { return foreign_ != nullptr && foreign_->count() != 0; }

// Enters for one region at a time: closing waits for one registration, not for all.
Domain::Turn Domain::take_turn(bool all_due) {
  Turn turn;
  for (size_t i = 0; i < source_->regions().size(); ++i) {
    const Region& region = source_->regions()[i];
    if (!enter()) return {};
    const bool is_ours = !callers_only_;
    const bool is_left = is_ours && region.is_empty();
    if (all_due && !region.is_empty()) make_due(region);
    bool is_put_off = false;
    if (is_ours && !is_left) {
      is_put_off = register_entered(region, Caller::kRegistrar) == RDM_BACKEND_LATER;
      turn.next = std::min(turn.next, next_try(region));
    }
    leave();
    if (is_left) {
      retire_region(region, Caller::kRegistrar);
      is_put_off = keeps(region);
    }
    turn.is_done = turn.is_done && !is_put_off;
  }
  turn.is_done = foreign_->deregister_idle() && turn.is_done;
  if (!enter()) return {};
  // A backend that runs in malloc refuses this thread permanently, so waiting is pointless.
  turn.is_done = turn.is_done || may_run_in_malloc();
  leave();
  return turn;
}

bool Domain::wants_pages(const Region& region) const {
  if (registers_when_asked() || !enter()) return false;
  const bool wants = fills(region);
  leave();
  return wants;
}

bool Domain::has_to_come(size_t bytes) const {
  if (!enter()) return false;
  size_t sum = 0;
  for (size_t i = 0; !may_run_in_malloc() && i < source_->regions().size() && sum < bytes; ++i) {
    sum += bytes_to_come(source_->regions()[i]);
  }
  leave();
  return sum >= bytes;
}

size_t Domain::bytes_to_come(const Region& region) const {
  if (region.is_empty() || !takes(region) || has_no_leave_of(Caller::kRegistrar)) return 0;
  const uint32_t state = entry_of(region).state.load(std::memory_order_relaxed);
  const bool is_wanted = !registers_when_asked() && !region.by_touch;
  return state == kAsked || (state == kUnregistered && is_wanted) ? region.length : 0;
}

int Domain::register_whole(const Region& region, KeyEntry& entry, size_t length) {
  if (length == 0) return RDM_OK;  // below the device's alignment
  rdm_backend_key key{};
  const int status = register_range(region, 0, length, &key);
  // If the device has no MR left, the region stays unregistered. That is a limit, not a failure,
  // unless foreign memory holds MRs.
  if (status == RDM_NOT_REGISTERED && !is_crowded()) return RDM_OK;
  if (status == RDM_OK) entry.publish(region.base, length, key);
  return status;
}

bool Domain::has_hole(const Region& region, size_t length) const {
  const PageMarks* const marks = source_->marks();
  return marks != nullptr && length != 0 && marks->has_hole(region.base, length);
}

// Visits the ranges between holes, cut to the maximum length of a registration.
template <typename Visit>
void Domain::for_each_piece(const Region& region, size_t length, Visit visit) const {
  const PageMarks* const marks = source_->marks();
  const uintptr_t end = region.base + length;
  for (uintptr_t from = region.base; from < end;) {
    uintptr_t to = end;
    if (marks != nullptr) {
      from = os::align_up(marks->first_whole(from, end), limits().alignment);
      if (from >= end) return;
      to = marks->first_hole(from, end);
    }
    const uintptr_t next = to;
    to = os::align_down(to, limits().alignment);
    for (; from < to; from += limits().max_length) {
      const size_t bytes = to - from < limits().max_length ? to - from : limits().max_length;
      if (!visit(from - region.base, bytes)) return;
      if (bytes < limits().max_length) break;
    }
    from = next;
  }
}

int Domain::register_pieces(const Region& region, KeyEntry& entry, size_t length) {
  size_t count = 0;
  for_each_piece(region, length, [&](size_t, size_t) { return ++count != 0; });
  if (!make_room_for_pieces(entry, count)) {
    say("no memory for bookkeeping");
    return RDM_SYSTEM;
  }
  int status = RDM_OK;
  size_t done = 0;
  for_each_piece(region, length, [&](size_t offset, size_t bytes) {
    if (done == count) return false;  // a hole appeared meanwhile
    Piece& piece = entry.piece[done];
    piece = {offset, 0, {}};
    status = register_range(region, offset, bytes, &piece.key);
    if (status == RDM_OK) piece.length = bytes;
    if (status == RDM_NOT_REGISTERED && !is_crowded()) status = RDM_OK;
    if (status == RDM_OK) ++done;
    return status == RDM_OK;
  });
  if (status != RDM_OK) {
    while (done-- > 0) (void)deregister_piece(region, entry.piece[done], false);
    return status;
  }
  entry.pieces = static_cast<uint32_t>(done);
  return RDM_OK;
}

bool Domain::make_room_for_pieces(KeyEntry& entry, size_t count) {
  if (entry.piece_room >= count) return true;
  void* memory = os::map_metadata(count * sizeof(Piece));
  if (memory == nullptr) return false;
  entry.piece = static_cast<Piece*>(memory);
  entry.piece_room = static_cast<uint32_t>(count);
  return true;
}

rdm_backend_request Domain::request_for(const Region& region, size_t offset, size_t length) const {
  rdm_backend_request request{};
  request.base = reinterpret_cast<void*>(region.base + offset);
  request.length = length;
  const bool is_hugetlb = region.page_kind == os::PageKind::kHugetlb;
  request.page_size = os::page_size_of(is_hugetlb ? region.page_kind : os::PageKind::kBase);
  request.access = access_for(region);
  request.pinned = region.kind == RegionKind::kPinned ? 1 : 0;
  request.exposed = region.exposed ? 1 : 0;
  request.node = region.node;
  return request;
}

int Domain::register_range(const Region& region, size_t offset, size_t length,
                           rdm_backend_key* key) {
  char why[kLongestWhy] = {};
  const size_t retired = region.retired();
  int status = register_memory(region, offset, length, key, why, sizeof why);
  // It is retried without the pages that were lost meanwhile.
  if (region.retired() != retired) why[0] = '\0';
  // If the heap overlaps existing registrations, that is a failure like any other.
  if (status == RDM_BACKEND_OVERLAPS) status = RDM_SYSTEM;
  if (why[0] != '\0') say(why);
  return status;
}

int Domain::register_memory(const Region& region, size_t offset, size_t length,
                            rdm_backend_key* key, char* why, size_t why_size) {
  const int status = device_.register_memory(request_for(region, offset, length),
                                             charges_for(region), 0, key, why, why_size);
  if (status == RDM_OK) {
    counters_->registrations.fetch_add(1, std::memory_order_relaxed);
    counters_->registered_bytes.fetch_add(length, std::memory_order_relaxed);
  }
  return status;
}

int Domain::deregister_piece(const Region& region, const Piece& piece, bool may_ask_again) {
  if (piece.length == 0) return RDM_OK;
  const int status =
      device_.deregister_memory(piece.length, charges_for(region), piece.key, may_ask_again);
  if (status != RDM_BACKEND_LATER || !may_ask_again) {
    counters_->registered_bytes.fetch_sub(piece.length, std::memory_order_relaxed);
  }
  return status;
}

int Domain::deregister(const Region& region) {
  KeyEntry& entry = entry_of(region);
  const Piece whole{0, entry.length.exchange(0, std::memory_order_acq_rel), entry.key()};
  const uint32_t pieces = entry.pieces;
  entry.pieces = 0;
  entry.forget_refusals();
  entry.state.store(kUnregistered, std::memory_order_release);
  bool is_done = deregister_piece(region, whole, false) == RDM_OK;
  for (uint32_t i = pieces; i-- > 0;) {
    is_done = deregister_piece(region, entry.piece[i], false) == RDM_OK && is_done;
  }
  for (EarlyParts::Part part; early_.take_of(region.index, &part);) {
    is_done = deregister_piece(region, {0, part.length, part.key}, false) == RDM_OK && is_done;
  }
  return is_done ? int{RDM_OK} : int{RDM_SYSTEM};
}

void Domain::retire_region(const Region& region, Caller caller) {
  if (!is_replayed_.load(std::memory_order_seq_cst) || !enter()) return;
  const bool may_call = caller != Caller::kMalloc || may_run_in_malloc();
  // The slot may belong to another region by now.
  if (may_call && region.is_empty()) let_go_of(region, entry_of(region));
  leave();
}

void Domain::release_for_fork() {
  if (!releases_at_fork_ || !enter()) return;
  was_released_ = true;
  for (size_t i = 0; i < source_->regions().size(); ++i) {
    const Region& region = source_->regions()[i];
    if (entry_of(region).state.load(std::memory_order_acquire) == kRegistered ||
        early_.has_of(region.index)) {
      let_go_of(region, entry_of(region));
    }
  }
  (void)foreign_->give_up(foreign_->idle_bytes(UINT64_MAX));
  leave();
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
  bool is_put_off = deregister_piece(region, whole, true) == RDM_BACKEND_LATER;
  if (is_put_off) entry.length.store(whole.length, std::memory_order_release);
  while (!is_put_off && entry.pieces != 0) {
    is_put_off = deregister_piece(region, entry.piece[entry.pieces - 1], true) == RDM_BACKEND_LATER;
    if (!is_put_off) --entry.pieces;
  }
  is_put_off = is_put_off || !let_go_of_early(region);
  if (!is_put_off) entry.forget_refusals();
  entry.state.store(is_put_off ? kRegistered : kUnregistered, std::memory_order_release);
  os::wake_all(entry.state);
}

}  // namespace rdmalloc
