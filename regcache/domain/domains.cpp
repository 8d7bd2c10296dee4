#include "regcache/domain/domains.h"

#include <new>

#include "allocator/os/keep_errno.h"
#include "allocator/os/memory.h"

namespace rdmalloc {

Domain* Domains::find_free() {
  for (size_t i = 0; i < kMost; ++i) {
    Domain& domain = domains_[(next_ + i) % kMost];
    if (!domain.is_in_use()) return &domain;
  }
  return nullptr;
}

DomainForeign* Domains::prepare(Domain* domain, Registrar* registrar, Retries* retries) {
  const auto index = static_cast<size_t>(domain - domains_);
  DomainForeign*& foreign = foreign_[index];
  if (foreign == nullptr) {
    void* const memory = os::map_metadata(sizeof(DomainForeign));
    if (memory == nullptr) return nullptr;
    foreign = new (memory) DomainForeign();
    foreign->device.bind(domain, registrar);
    domain->bind(&foreign->cache, source_, account_, retries, &counters_);
    used_.store(index + 1, std::memory_order_release);
  }
  next_ = (index + 1) % kMost;
  return foreign;
}

bool Domains::is_in_use(const Domain* domain) const {
  for (const Domain& known : *this) {
    if (&known == domain) return known.is_in_use();
  }
  return false;
}

bool Domains::need_registrar() const {
  for (const Domain& domain : *this) {
    const DomainParts& parts = domain.parts();
    if (domain.is_open() && !parts.device.may_run_in_malloc() && !parts.rules.is_callers_only())
      return true;
  }
  return false;
}

void Domains::release_for_fork() noexcept {
  for (Domain& domain : *this) {
    if (domain.is_open()) domain.deregistration().release_for_fork();
  }
  note_registrations();
}

void Domains::note_fork_child() noexcept {
  for (Domain& domain : *this) {
    domain.note_fork_child();
    domain.parts().foreign->note_fork_child();
  }
  account_->clear();
  counters_.registered_bytes = 0;
}

void Domains::on_change(uintptr_t base, uintptr_t end) noexcept {
  os::KeepErrno keep_errno;
  for (Domain& domain : *this) domain.parts().foreign->on_change(base, end);
}

bool Domains::is_cached(uintptr_t base, uintptr_t end) noexcept {
  for (Domain& domain : *this) {
    if (domain.parts().foreign->is_cached(base, end)) return true;
  }
  return false;
}

void Domains::add_to(RegistrationCounters* sum) const noexcept {
  sum->registrations += counters_.registrations.load(std::memory_order_relaxed);
  sum->registered_bytes += counters_.registered_bytes.load(std::memory_order_relaxed);
  sum->registered_pinned_bytes += account_->pinned();
  sum->registration_ns += counters_.registration_ns.load(std::memory_order_relaxed);
  sum->lookups += counters_.lookups.sum();
  sum->lookup_misses += counters_.misses.load(std::memory_order_relaxed);
  sum->foreign_hits += ForeignHitCounter::sum();
  for (const Domain& domain : *this) {
    sum->domains += domain.is_open() ? 1 : 0;
    const ForeignCache& cache = *domain.parts().foreign;
    const CacheCounters& counters = cache.counters();
    sum->foreign_misses += counters.misses.load(std::memory_order_relaxed);
    sum->foreign_evictions += counters.evictions.load(std::memory_order_relaxed);
    sum->foreign_invalidations += counters.invalidations.load(std::memory_order_relaxed);
    sum->foreign_regions += cache.count();
    sum->foreign_bytes += cache.bytes();
    sum->registrations += counters.registrations.load(std::memory_order_relaxed);
    sum->registered_bytes += cache.bytes();
  }
}

void Domains::note_registrations() const noexcept {
  RegistrationCounters all;
  add_to(&all);
  source_->note_registrations(all.domains, all.registered_bytes, all.registered_pinned_bytes);
}

bool Domains::validate() const {
  for (const Domain& domain : *this) {
    if (!domain.validate() || !domain.parts().foreign->validate()) return false;
  }
  return true;
}

}  // namespace rdmalloc
