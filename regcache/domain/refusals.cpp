#include "regcache/domain/refusals.h"

#include <algorithm>

namespace rdmalloc {

void Refusals::bind(Device* device, const RegionMrs* mrs, Retries* retries, ForeignCache* foreign,
                    const RegistrationRules* rules) {
  device_ = device;
  mrs_ = mrs;
  retries_ = retries;
  foreign_ = foreign;
  rules_ = rules;
}

int Refusals::put_off(KeyEntry& entry, int status) {
  entry.state.store(kUnregistered, std::memory_order_release);
  return status;
}

int Refusals::refuse(const Region& region, KeyEntry& entry, int status, RegionCaller caller) {
  const Cause cause = cause_of(status);
  if (status == RDM_BACKEND_NEVER) status = RDM_SYSTEM;
  // Inside malloc no room can be made, and the thread may be unable to register: see
  // register_missed(). The next request for the region tries once more.
  if (caller == RegionCaller::kMalloc) return put_off(entry, status);
  if (status == RDM_BACKEND_LATER) {
    if (!entry.was_refused()) return put_off(entry, status);
    // Counts as another failed try.
    return refuse_as(entry.cause, region, entry, entry.refusal);
  }
  (void)refuse_as(cause, region, entry, status);
  if (caller != RegionCaller::kRegistrar) retries_->note_work();
  return status;
}

int Refusals::refuse_as(Cause cause, const Region& region, KeyEntry& entry, int status) {
  // First, because others read it once the region was refused.
  entry.refusal = static_cast<int16_t>(status);
  const unsigned refusals = entry.refusals + 1U;
  if (refusals <= UINT8_MAX) entry.refusals = static_cast<uint8_t>(refusals);
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

int Refusals::refuse_for_memory(const Region& region, KeyEntry& entry) {
  (void)refuse_as(Cause::kPassing, region, entry, RDM_OUT_OF_BUDGET);
  retries_->note_work();
  return RDM_OUT_OF_BUDGET;
}

bool Refusals::makes_room(const Region& region, int status, size_t length) {
  if (status == RDM_OUT_OF_BUDGET) return device_->reclaim(mrs_->charges_for(region), length);
  if (status != RDM_NOT_REGISTERED || !mrs_->is_crowded()) return false;
  const size_t missing = missing_count(region);
  return missing == 0 || foreign_->idle().give_up_count(missing);
}

// How many memory regions must be given up to register this region, or as much of it as the device
// could register without foreign memory, and at least one piece.
size_t Refusals::missing_count(const Region& region) const {
  const size_t used = device_->count();
  const size_t foreign = mrs_->is_crowded() ? foreign_->count() : 0;
  const size_t of_heap = used > foreign ? used - foreign : 0;
  const size_t wanted =
      std::min(mrs_->count_pieces(region),
               device_->limits().max_count > of_heap ? device_->limits().max_count - of_heap : 1);
  const size_t left = device_->limits().max_count > used ? device_->limits().max_count - used : 0;
  return wanted > left ? wanted - left : 0;
}

void Refusals::wait_for_room(const Region& region) const {
  const size_t bytes = missing_count(region) != 0 ? 0 : mrs_->length_of(region);
  retries_->note_waiting(mrs_->charges_for(region), bytes);
}

bool Refusals::has_room(const Region& region) const {
  return missing_count(region) == 0 && shortfall(region) == 0;
}

// Room could be made by giving up registrations that became idle since the refusal; nothing
// announces those. If the kernel refused, the shortfall is unknown.
bool Refusals::may_make_room(const Region& region, const KeyEntry& entry) const {
  if (entry.due != UINT64_MAX) return false;
  const size_t count = missing_count(region);
  const size_t bytes = shortfall(region);
  return (count == 0 || foreign_->idle().count(count) >= count) &&
         (bytes == 0 || device_->can_reclaim(mrs_->charges_for(region), bytes));
}

bool Refusals::is_due(const Region& region, const KeyEntry& entry) const {
  if (entry.cause != Cause::kNoRoom) return retries_->now_ns() >= entry.due;
  return has_room(region) && in_use(region) < entry.due;
}

bool Refusals::may_complete(const Region& region, const KeyEntry& entry) const {
  return entry.is_short() && device_->count() < device_->limits().max_count &&
         in_use(region) < entry.due;
}

// What lacks room is tried again when less is in use; what fails for another reason has said it.
void Refusals::note_rest(const Region& region, KeyEntry& entry, int status) const {
  entry.due = status == RDM_OUT_OF_BUDGET ? in_use(region) : UINT64_MAX;
  entry.set_short(status == RDM_NOT_REGISTERED || status == RDM_OUT_OF_BUDGET ||
                  status == RDM_BACKEND_LATER);
  if (entry.is_short()) retries_->note_waiting(mrs_->charges_for(region), 0);
}

uint64_t Refusals::next_try(const Region& region, const KeyEntry& entry) const {
  if (entry.is_short()) {
    retries_->note_waiting(mrs_->charges_for(region), 0);
    return may_complete(region, entry) ? retries_->now_ns() : Retries::kNever;
  }
  if (entry.state.load(std::memory_order_acquire) != kRefused) return Retries::kNever;
  if (entry.cause != Cause::kNoRoom) return entry.due;
  wait_for_room(region);
  return is_due(region, entry) ? retries_->now_ns() : Retries::kNever;
}

void Refusals::make_due(KeyEntry& entry) {
  if (entry.state.load(std::memory_order_acquire) != kRefused) return;
  entry.refusals = 1;
  entry.due = entry.cause == Cause::kNoRoom ? UINT64_MAX : 0;
}

bool Refusals::may_try_again(const Region& region, const KeyEntry& entry, RegionCaller caller) {
  if (caller == RegionCaller::kLookup) say_no(region, entry);
  if (caller != RegionCaller::kRegistrar && !rules_->is_callers_only()) return false;
  return is_due(region, entry) || (entry.cause == Cause::kNoRoom && may_make_room(region, entry));
}

// The registrar finds out whether the refusal still holds.
void Refusals::say_no(const Region& region, const KeyEntry& entry) {
  bool is_to_be_tried = is_due(region, entry);
  if (entry.cause == Cause::kNoRoom && retries_->may_look()) {
    is_to_be_tried = retries_->look_at_limit() || is_to_be_tried || may_make_room(region, entry);
  }
  if (is_to_be_tried) retries_->ask();
}

}  // namespace rdmalloc
