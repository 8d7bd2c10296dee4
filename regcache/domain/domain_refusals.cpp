// What becomes of a region that could not be registered, and when it is tried again: see retries.h.
#include "regcache/domain/domain.h"

namespace rdmalloc {

// Leaves the region to the first thread that may register it.
int Domain::put_off(KeyEntry& entry, int status) {
  entry.state.store(kUnregistered, std::memory_order_release);
  return status;
}

int Domain::refuse(const Region& region, KeyEntry& entry, int status, Caller caller) {
  const Cause cause = cause_of(status);
  if (status == RDM_BACKEND_NEVER) status = RDM_SYSTEM;
  // Inside malloc no room can be made, and the thread may be unable to register: see
  // register_missed(). The next request for the region tries once more.
  if (caller == Caller::kMalloc) return put_off(entry, status);
  if (status == RDM_BACKEND_LATER) {
    if (!entry.was_refused()) return put_off(entry, status);
    // Counts as another failed try.
    return refuse_as(entry.cause, region, entry, entry.refusal);
  }
  (void)refuse_as(cause, region, entry, status);
  if (caller != Caller::kRegistrar) retries_->note_work();
  return status;
}

int Domain::refuse_as(Cause cause, const Region& region, KeyEntry& entry, int status) {
  const unsigned refusals = entry.refusals + 1U;
  if (refusals <= UINT8_MAX) entry.refusals = static_cast<uint8_t>(refusals);
  entry.refusal = static_cast<int16_t>(status);
  entry.cause = cause;
  if (cause == Cause::kNoRoom) {
    // The kernel or the device refused it: do not ask again until less is in use.
    entry.due = has_room(region) ? in_use(region) : UINT64_MAX;
    wait_for_room(region);
  } else {
    const uint64_t delay = cause == Cause::kForGood ? Retries::kNever : Retries::delay_ns(refusals);
    entry.due = delay == Retries::kNever ? delay : retries_->now_ns() + delay;
  }
  entry.state.store(kRefused, std::memory_order_release);
  return status;
}

void Domain::wait_for_room(const Region& region) const {
  const size_t bytes = missing_count(region) != 0 ? 0 : registered_length(region);
  retries_->note_waiting(charges_for(region), bytes);
}

bool Domain::has_room(const Region& region) const {
  return missing_count(region) == 0 && shortfall(region) == 0;
}

// Room could be made by giving up registrations that became idle since the refusal; nothing
// announces those. If the kernel refused, the shortfall is unknown.
bool Domain::may_make_room(const Region& region, const KeyEntry& entry) const {
  if (entry.due != UINT64_MAX) return false;
  const size_t count = missing_count(region);
  const size_t bytes = shortfall(region);
  return (count == 0 || foreign_->idle_count(count) >= count) &&
         (bytes == 0 || device_.can_reclaim(charges_for(region), bytes));
}

bool Domain::is_due(const Region& region, const KeyEntry& entry) const {
  if (entry.cause != Cause::kNoRoom) return retries_->now_ns() >= entry.due;
  return has_room(region) && in_use(region) < entry.due;
}

// When the registrar should try again: a time as of Retries::now_ns(), or kNever.
uint64_t Domain::next_try(const Region& region) const {
  const KeyEntry& entry = entry_of(region);
  if (entry.state.load(std::memory_order_acquire) != kRefused) return Retries::kNever;
  if (entry.cause != Cause::kNoRoom) return entry.due;
  wait_for_room(region);
  return is_due(region, entry) ? retries_->now_ns() : Retries::kNever;
}

// Makes another try due now, if the region was refused.
void Domain::make_due(const Region& region) {
  KeyEntry& entry = entry_of(region);
  if (entry.state.load(std::memory_order_acquire) != kRefused) return;
  entry.refusals = 1;
  entry.due = entry.cause == Cause::kNoRoom ? UINT64_MAX : 0;
}

bool Domain::may_try_again(const Region& region, const KeyEntry& entry, Caller caller) {
  if (caller == Caller::kLookup) say_no(region, entry);
  if (caller != Caller::kRegistrar && !callers_only_) return false;
  return is_due(region, entry) || (entry.cause == Cause::kNoRoom && may_make_room(region, entry));
}

// The registrar finds out whether the refusal still holds.
void Domain::say_no(const Region& region, const KeyEntry& entry) {
  bool is_to_be_tried = is_due(region, entry);
  if (entry.cause == Cause::kNoRoom && retries_->may_look()) {
    is_to_be_tried = retries_->look_at_limit() || is_to_be_tried || may_make_room(region, entry);
  }
  if (is_to_be_tried) retries_->ask();
}

}  // namespace rdmalloc
