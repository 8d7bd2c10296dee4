// How a domain lets go of regions: of one that has lost its pages, of most before a fork that
// deregisters, of all when the domain is closed.
//
// Takes no lock. Any thread, also inside malloc, except where a function says otherwise. A region's
// entry is claimed (kBusy) first, and nothing here waits for a thread that has claimed it.
#pragma once

#include "regcache/domain/domain_parts.h"

namespace rdmalloc {

class RegionDeregistration {
 public:
  constexpr RegionDeregistration() = default;
  RegionDeregistration(const RegionDeregistration&) = delete;
  RegionDeregistration& operator=(const RegionDeregistration&) = delete;

  // Once, before the domain is first opened.
  void bind(DomainParts* domain) { domain_ = domain; }

  // Deregisters a region that has lost all its pages; does nothing while another thread is working
  // on it, or inside malloc if the backend may not run there.
  void retire(const Region& region, RegionCaller caller);
  // Deregisters the remains of regions that no longer exist, where no other thread may do it. Not
  // inside malloc.
  void retire_leftovers();
  // The domain still has a registration of a region that has lost all its pages, or a thread may be
  // reading its entry.
  bool keeps(const Region& region) const;

  // Before a fork, in a domain of RDM_DOMAIN_RELEASE_AT_FORK: deregisters idle foreign memory and
  // all regions except those that another thread is working on. From then on lookups register.
  void release_for_fork();

  // Deregisters everything, last region first, in a domain that nobody is inside any more. False:
  // the backend refused one.
  bool deregister_all();

 private:
  DomainParts* domain_ = nullptr;
};

}  // namespace rdmalloc
