#include "regcache/domain/region_registration.h"

#include <pthread.h>

#include "allocator/os/clock.h"
#include "allocator/os/futex.h"
#include "allocator/os/thread.h"

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

uint64_t count_changes(const DomainParts& domain) {
  const PageMarks* const marks = domain.source->marks();
  return marks == nullptr ? 0 : marks->changes();
}

// This thread has set the entry's state to kBusy.
int register_claimed(DomainParts& domain, const Region& region, KeyEntry& entry,
                     RegionCaller caller) {
  os::NoCancel no_cancel;
  const uint64_t started = os::now_ns();
  const size_t length = domain.mrs.length_of(region);
  // Populates in steps, before the backend does it all at once. If there is no room to register
  // ahead of need, the region is registered when it is asked for.
  const bool is_asked_for = caller == RegionCaller::kLookup || entry.was_refused();
  const PagesFor who = is_asked_for ? PagesFor::kNow : PagesFor::kLater;
  if (domain.mrs.fills(region) && !domain.source->populate(region, who)) {
    if (!is_asked_for) return Refusals::put_off(entry, RDM_OUT_OF_BUDGET);
    domain.complaints.say("too little memory is left for pages that have not been touched yet");
    return domain.refusals.refuse_for_memory(region, entry);
  }
  int status = RDM_OK;
  bool again = false;
  int tries = kMostTries;
  int reclaims = caller == RegionCaller::kMalloc ? 0 : kMostReclaims;
  do {
    const size_t retired = region.retired();
    const uint64_t before = count_changes(domain);
    status = domain.mrs.register_region(region, entry);
    // The program may meanwhile have moved the memory that the backend refused, or changed its
    // access rights.
    again = status != RDM_OK &&
            (region.retired() != retired || (count_changes(domain) != before && --tries > 0));
  } while (again || (reclaims-- > 0 && domain.refusals.makes_room(region, status, length)));
  domain.counters->registration_ns.fetch_add(os::now_ns() - started, std::memory_order_relaxed);
  if (status != RDM_OK) return domain.refusals.refuse(region, entry, status, caller);
  entry.forget_refusals();
  if (entry.is_short()) domain.refusals.note_rest(region, entry, RDM_NOT_REGISTERED);
  entry.state.store(kRegistered, std::memory_order_release);
  return RDM_OK;
}

}  // namespace

int RegionRegistration::register_region(const Region& region, RegionCaller caller) {
  if (!domain_->entrance.enter()) return RDM_NOT_REGISTERED;
  // From here on the slot is not reused: see RegionDeregistration::keeps().
  const int status = region.is_empty() ? int{RDM_NOT_REGISTERED} : register_entered(region, caller);
  domain_->entrance.leave();
  return status;
}

// Inside malloc, the thread that calls the backend may be unable to register: it does not issue to
// the ring, or has its own descriptors. The next thread that registers foreign memory, and thus
// can, catches up.
void RegionRegistration::register_missed() {
  if (!has_missed_.load(std::memory_order_relaxed) || !has_missed_.exchange(false)) return;
  for (size_t i = 0; i < domain_->source->regions().size(); ++i) {
    const Region& region = domain_->source->regions()[i];
    if (!region.is_empty()) (void)register_entered(region, RegionCaller::kRegistrar);
  }
  domain_->retries->note_work();
}

int RegionRegistration::register_entered(const Region& region, RegionCaller caller) {
  if (!domain_->mrs.takes(region) || !domain_->rules.permits(caller)) return RDM_OK;
  KeyEntry& entry = domain_->keys.entry_of(region);
  const uint32_t before = entry.state.load(std::memory_order_acquire);
  const bool is_asked_for = caller == RegionCaller::kLookup || before == kAsked;
  // Registering would place its pages on the registering thread's node, so wait until the program
  // wants its key.
  if (region.by_touch && !is_asked_for) return RDM_OK;
  // A region that was asked for and refused is retried by the registrar.
  if (domain_->rules.registers_when_asked() && !is_asked_for && before != kRefused) return RDM_OK;
  if (caller == RegionCaller::kMalloc && !domain_->device.may_run_in_malloc())
    return RDM_BACKEND_LATER;
  if (caller == RegionCaller::kMalloc && !domain_->rules.is_replayed()) return RDM_OK;
  uint64_t waited_ns = 0;
  for (;;) {
    uint32_t state = entry.state.load(std::memory_order_acquire);
    if (entry.is_readable(state)) {
      return caller == RegionCaller::kRegistrar ? complete(region, entry) : RDM_OK;
    }
    if (state == kRefused && !domain_->refusals.may_try_again(region, entry, caller))
      return entry.refusal;
    if (state == kBusy) {
      if (entry.was_refused()) return entry.refusal;
      if (caller != RegionCaller::kLookup) return RDM_NOT_REGISTERED;
      os::wait_while(entry.state, kBusy);
    } else if (is_put_off() && !entry.was_refused()) {
      return RDM_BACKEND_LATER;
    } else if (entry.state.compare_exchange_strong(state, kBusy, std::memory_order_acq_rel)) {
      if (domain_->rules.is_callers_only()) deregistration_->retire_leftovers();
      const int status = register_claimed(*domain_, region, entry, caller);
      os::wake_all(entry.state);
      if (status != RDM_OK && caller == RegionCaller::kMalloc) has_missed_ = true;
      if (status != RDM_BACKEND_LATER) return status;
      if (!waits_for_backend(caller, &waited_ns)) return status;
    }
  }
}

// Registers the rest of a region of which the device had too few MRs to register all. Lookups
// answer from what there is meanwhile.
int RegionRegistration::complete(const Region& region, KeyEntry& entry) {
  uint32_t state = kRegistered;
  if (!domain_->refusals.may_complete(region, entry) ||
      !entry.state.compare_exchange_strong(state, kBusy, std::memory_order_acq_rel)) {
    return RDM_OK;
  }
  os::NoCancel no_cancel;
  const int status = domain_->mrs.register_rest(region, entry);
  domain_->refusals.note_rest(region, entry, status);
  entry.state.store(kRegistered, std::memory_order_release);
  os::wake_all(entry.state);
  return status == RDM_BACKEND_LATER ? status : int{RDM_OK};
}

// A backend that runs in malloc may put a thread off permanently, for example one that does not
// issue to a single-issuer ring; asking again at each lookup would cost a system call. Other
// backends put threads off only briefly, after a fork.
bool RegionRegistration::is_put_off() const {
  return domain_->device.may_run_in_malloc() &&
         put_off_thread_ == static_cast<uintptr_t>(pthread_self()) &&
         os::now_ns() - put_off_at_ < kPutOffNs;
}

// Does not wait while this thread may hold a driver's lock: the fork waits for registrations, and
// one of them may be waiting for that lock.
bool RegionRegistration::waits_for_backend(RegionCaller caller, uint64_t* waited_ns) {
  if (domain_->device.may_run_in_malloc()) {
    put_off_thread_ = static_cast<uintptr_t>(pthread_self());
    put_off_at_ = os::now_ns();
    return false;
  }
  const bool may_wait = caller == RegionCaller::kLookup && !domain_->rules.does_not_wait();
  if (!may_wait || *waited_ns >= kLongestWaitNs) return false;
  os::sleep_for(kWaitStepNs);
  *waited_ns += kWaitStepNs;
  return true;
}

bool RegionRegistration::wants_pages(const Region& region) const {
  if (domain_->rules.registers_when_asked() || !domain_->entrance.enter()) return false;
  const bool wants = domain_->mrs.fills(region);
  domain_->entrance.leave();
  return wants;
}

}  // namespace rdmalloc
