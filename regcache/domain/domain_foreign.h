// A domain's cache of foreign memory, and what the cache sees of the domain: the limits, and the
// way to the backend.
//
// Takes no lock. Called in whichever thread gets, puts or changes memory, also inside malloc.
#pragma once

#include "regcache/domain/domain.h"
#include "regcache/domain/registrar.h"
#include "regcache/foreign/foreign_cache.h"

namespace rdmalloc {

class DomainDevice final : public ForeignDevice {
 public:
  constexpr DomainDevice() = default;

  void bind(Domain* domain, Registrar* registrar) {
    domain_ = domain;
    registrar_ = registrar;
  }

  int register_foreign(uintptr_t base, size_t length, size_t kept, rdm_backend_key* key, char* why,
                       size_t why_size) override;
  int deregister_foreign(size_t length, const rdm_backend_key& key, bool keeps_room) override {
    return device().deregister_memory(length, charges(), key, true, keeps_room);
  }
  bool reclaim(size_t length) override { return device().reclaim(charges(), length); }
  bool may_reclaim(size_t length) override { return device().may_reclaim(charges(), length); }
  void put_off() override { registrar_->poke(); }
  // False for pages that lookups pass over in a registered region: the heap may move them, and no
  // monitor may watch them, because watching splits mappings.
  bool may_keep(uintptr_t base, size_t length) override;
  // Heap memory that the program named, of a heap that is not registered: what malloc puts there
  // next was not named.
  bool is_for_users_only(uintptr_t base) override;
  size_t alignment() const override { return device().limits().alignment; }
  size_t max_length() const override { return device().limits().max_length; }
  bool may_run_in_malloc() const override { return device().may_run_in_malloc(); }
  bool unpins_late() const override { return device().has(RDM_BACKEND_UNPINS_LATE); }

 private:
  Device& device() const { return domain_->parts().device; }
  int charges() const { return device().limits().charges; }

  Domain* domain_ = nullptr;
  Registrar* registrar_ = nullptr;
};

// Made when the domain is first used, and kept.
struct DomainForeign {
  // The domain was opened with these options.
  void open(const rdm_domain_options& options, const ForeignDefaults& defaults);

  ForeignCache cache;
  DomainDevice device;
};

}  // namespace rdmalloc
