// Who registers a region of a domain, and when.
//
// Takes no lock. Any thread, for any regions, and inside malloc if the backend permits that: calls
// only the backend, and waits for nobody unless a lookup asks. Whoever registers a region has
// claimed its entry (kBusy).
#pragma once

#include <atomic>
#include <cstdint>

#include "regcache/domain/domain_parts.h"
#include "regcache/domain/region_deregistration.h"

namespace rdmalloc {

class RegionRegistration {
 public:
  constexpr RegionRegistration() = default;
  RegionRegistration(const RegionRegistration&) = delete;
  RegionRegistration& operator=(const RegionRegistration&) = delete;

  // Once, before the domain is first opened.
  void bind(DomainParts* domain, RegionDeregistration* deregistration) {
    domain_ = domain;
    deregistration_ = deregistration;
  }

  // RDM_OK: the region is registered now, as far as the device's limits allow, or need not be
  // because it is not pinned. RDM_BACKEND_LATER: called inside malloc, where this backend may not
  // run.
  int register_region(const Region& region, RegionCaller caller);
  // The same, by a thread that has entered the domain.
  int register_entered(const Region& region, RegionCaller caller);

  // Registers regions that threads inside malloc could not register: to be called by one that can.
  void register_missed();

  // This domain will register the region as soon as it can, and thereby populate its pages.
  bool wants_pages(const Region& region) const;

 private:
  int complete(const Region& region, KeyEntry& entry);
  bool is_put_off() const;
  bool waits_for_backend(RegionCaller caller, uint64_t* waited_ns);

  DomainParts* domain_ = nullptr;
  RegionDeregistration* deregistration_ = nullptr;
  std::atomic<uintptr_t> put_off_thread_{0};  // whom the backend told to come later, ...
  std::atomic<uint64_t> put_off_at_{0};       // ... and when: os::now_ns()
  std::atomic<bool> has_missed_{false};       // regions, inside malloc: see register_missed()
};

}  // namespace rdmalloc
