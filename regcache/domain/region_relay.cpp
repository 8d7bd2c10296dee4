#include "regcache/domain/region_relay.h"

namespace rdmalloc {

// A region acquired meanwhile is seen either here or by ready(): whichever thread reaches meeting_
// second sees what the other wrote before. What comes while the existing ones are registered is
// left to the second look, which finds it all but done.
int RegionRelay::replay(Domain* domain, bool partial) {
  RegistrationRules& rules = domain->parts().rules;
  const bool is_wanted = !rules.registers_when_asked();
  int status = is_wanted ? replay_once(domain, partial) : int{RDM_OK};
  rules.end_replay();
  if (is_wanted && status == RDM_OK && domain->parts().device.may_run_in_malloc()) {
    status = replay_once(domain, partial);
  }
  retire_leftovers();
  return status;
}

int RegionRelay::replay_once(Domain* domain, bool partial) {
  meeting_.fetch_add(1, std::memory_order_acq_rel);
  for (size_t i = 0; i < source_->regions().size(); ++i) {
    // A partially opened domain leaves to the registrar whatever it would have to wait for.
    const auto caller = partial ? RegionCaller::kRegistrar : RegionCaller::kLookup;
    const Region& region = source_->regions()[i];
    if (region.is_empty() || region.by_touch) continue;
    const int status = domain->registration().register_region(region, caller);
    if (status == RDM_OK || partial) continue;
    // A backend that runs in malloc has put this thread off permanently.
    if (status == RDM_BACKEND_LATER && domain->parts().device.may_run_in_malloc()) continue;
    // The device has no memory region left, which is a limit and no failure; or the region has just
    // been retired.
    if (status == RDM_NOT_REGISTERED) continue;
    return status == RDM_BACKEND_LATER ? int{RDM_SYSTEM} : status;
  }
  return RDM_OK;
}

bool RegionRelay::wants_pages(const Region& region) const noexcept {
  if (region.by_touch) return false;
  for (Domain& domain : *domains_) {
    if (domain.registration().wants_pages(region)) return true;
  }
  return false;
}

void RegionRelay::ready(const Region& region) noexcept {
  meeting_.fetch_add(1, std::memory_order_acq_rel);
  bool is_for_registrar = false;
  for (Domain& domain : *domains_) {
    const int status = domain.registration().register_region(region, RegionCaller::kMalloc);
    is_for_registrar = is_for_registrar || status == RDM_BACKEND_LATER;
  }
  if (is_for_registrar) registrar_->poke();
  retire_leftovers();
}

void RegionRelay::retire(const Region& region) noexcept {
  if (retire_everywhere(region)) return;
  has_leftovers_ = true;
  registrar_->poke();
}

// Only backends that run in malloc are called. False: some domain still keeps a part of the region.
bool RegionRelay::retire_everywhere(const Region& region) noexcept {
  for (Domain& domain : *domains_) domain.deregistration().retire(region, RegionCaller::kMalloc);
  return has_let_go(region);
}

// Retires what backends put off when the region was retired.
void RegionRelay::retire_leftovers() noexcept {
  if (!has_leftovers_.exchange(false)) return;
  for (size_t i = 0; i < source_->regions().size(); ++i) {
    const Region& region = source_->regions()[i];
    if (region.is_empty() && !retire_everywhere(region)) has_leftovers_ = true;
  }
}

bool RegionRelay::has_let_go(const Region& region) const noexcept {
  for (Domain& domain : *domains_) {
    if (domain.deregistration().keeps(region)) return false;
  }
  return true;
}

}  // namespace rdmalloc
