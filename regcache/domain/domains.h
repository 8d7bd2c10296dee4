// The domains of the process, what they count together, and their caches of foreign memory, which
// it tells of changes.
//
// on_change() runs in whichever call of the program changes memory, also inside malloc. Takes no
// lock. Any thread may read, also while a domain is being opened; opening and closing by one thread
// at a time, under the registry's lock. Constant-initialised.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "regcache/domain/domain.h"
#include "regcache/domain/domain_foreign.h"
#include "regcache/domain/pin_account.h"
#include "regcache/domain/region_source.h"
#include "regcache/foreign/monitor/changes.h"

namespace rdmalloc {

class Domains final : public ChangeSink {
 public:
  static constexpr size_t kMost = 64;

  constexpr Domains(RegionSource* source, PinAccount* account)
      : source_(source), account_(account) {}
  ~Domains() = default;
  Domains(const Domains&) = delete;
  Domains& operator=(const Domains&) = delete;

  // All that were ever opened.
  Domain* begin() { return domains_; }
  Domain* end() { return domains_ + used_.load(std::memory_order_acquire); }
  const Domain* begin() const { return domains_; }
  const Domain* end() const { return domains_ + used_.load(std::memory_order_acquire); }

  // A domain to be opened; the one that was just closed comes last. Null: all are in use.
  Domain* find_free();
  // Makes it ready to be opened, and returns its cache. Null: there is no memory.
  DomainForeign* prepare(Domain* domain, Registrar* registrar, Retries* retries);

  bool is_in_use(const Domain* domain) const;
  // Some domain's regions are registered by the registrar.
  bool need_registrar() const;

  // Before a fork, without the heap's locks: the domains of RDM_DOMAIN_RELEASE_AT_FORK deregister.
  // Domains may be opened and closed meanwhile.
  void release_for_fork() noexcept;
  void note_fork_child() noexcept;

  void on_change(uintptr_t base, uintptr_t end) noexcept override;
  bool is_cached(uintptr_t base, uintptr_t end) noexcept override;

  void add_to(RegistrationCounters* sum) const noexcept;
  // Publishes what is registered now. Also inside malloc.
  void note_registrations() const noexcept;

  // For tests, while nobody registers.
  bool validate() const;

 private:
  RegionSource* const source_;
  PinAccount* const account_;    // of what all of them pin
  size_t next_ = 0;              // where to look for a free one
  std::atomic<size_t> used_{0};  // that were ever opened: each before those behind it
  DomainCounters counters_;
  DomainForeign* foreign_[kMost] = {};
  Domain domains_[kMost];  // last, because few processes touch it
};

}  // namespace rdmalloc
