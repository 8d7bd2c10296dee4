// Tells all domains of regions that come and go, and a domain that is being opened of those there
// are.
//
// ready() and retire() run inside malloc, and call only backends that permit that; replay() runs
// under the registry's lock, and never inside malloc. Takes no lock itself. Constant-initialised.
#pragma once

#include <atomic>
#include <cstdint>

#include "regcache/domain/domains.h"
#include "regcache/domain/registrar.h"

namespace rdmalloc {

class RegionRelay {
 public:
  constexpr RegionRelay(Domains* domains, const RegionSource* source, Registrar* registrar)
      : domains_(domains), source_(source), registrar_(registrar) {}
  RegionRelay(const RegionRelay&) = delete;
  RegionRelay& operator=(const RegionRelay&) = delete;

  // Registers the existing regions; a status of rdmalloc.h. `partial`: failures are tolerated.
  int replay(Domain* domain, bool partial);

  // Some domain populates the region's pages as soon as it is ready.
  bool wants_pages(const Region& region) const noexcept;
  // A region is ready, or has lost all its pages. The registrar does what cannot be done here.
  void ready(const Region& region) noexcept;
  void retire(const Region& region) noexcept;
  bool has_let_go(const Region& region) const noexcept;

 private:
  int replay_once(Domain* domain, bool partial);
  bool retire_everywhere(const Region& region) noexcept;
  void retire_leftovers() noexcept;

  Domains* const domains_;
  const RegionSource* const source_;
  Registrar* const registrar_;
  std::atomic<bool> has_leftovers_{false};  // of retired regions, in backends that run in malloc
  std::atomic<uint32_t> meeting_{0};        // of replay() and ready()
};

}  // namespace rdmalloc
