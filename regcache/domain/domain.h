// A domain: one device, the rights it gives, and the table of the regions that are registered with
// it. Here is how it is opened and closed, and what users ask of it; its other classes register
// regions and let go of them.
//
// A lookup takes no lock and may be made by any thread. The registry opens and closes domains, one
// thread at a time. Domains are never destroyed, only reused, so that a lookup in a domain that is
// being closed reads valid memory.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "include/rdmalloc/backend.h"
#include "regcache/domain/domain_parts.h"
#include "regcache/domain/key_holds.h"
#include "regcache/domain/region_deregistration.h"
#include "regcache/domain/region_registration.h"

namespace rdmalloc {

class Domain {
 public:
  constexpr Domain() = default;
  Domain(const Domain&) = delete;
  Domain& operator=(const Domain&) = delete;

  // Connects the parts with each other and with what the domains share: once, before the domain is
  // first opened, because others read these without a lock from then on.
  void bind(ForeignCache* foreign, const RegionSource* source, PinAccount* account,
            Retries* retries, DomainCounters* counters);

  // Asks the backend for its limits, and accepts regions from then on; registers none itself.
  // Returns a status of rdmalloc.h.
  int open(const rdm_backend& backend, void* context, unsigned access, unsigned flags);

  // Waits until no thread registers any more, and deregisters everything, last region first.
  // RDM_SYSTEM: the backend refused one; RDM_BUSY, and the domain stays open: foreign memory is in
  // use, or pools are open. `tell_backend`: call its closed().
  int close(bool tell_backend);

  // A pool is going to hand out this domain's keys: the domain cannot be closed until the pool lets
  // go. False: the domain is not open, or does not serve pools. Not for a domain that another
  // thread is closing.
  bool hold();
  void let_go() { pools_.fetch_sub(1, std::memory_order_release); }

  // In a child of fork: nothing is registered any more, and no pool holds the domain.
  void note_fork_child();

  bool is_open() const { return parts_.entrance.is_open(); }
  bool is_in_use() const { return parts_.entrance.is_in_use(); }

  DomainParts& parts() { return parts_; }
  const DomainParts& parts() const { return parts_; }
  RegionRegistration& registration() { return registration_; }
  RegionDeregistration& deregistration() { return deregistration_; }
  KeyHolds& key_holds() { return key_holds_; }

  // Null pointers are RDM_INVALID.
  static int lookup(Domain* domain, const void* address, size_t length, rdm_mr* out);
  int lookup(const void* address, size_t length, rdm_mr* out) {
    return lookup(this, address, length, out);
  }

  // rdm_get and rdm_put. Null pointers are RDM_INVALID.
  static int get(Domain* domain, const void* address, size_t length, rdm_mr* out);
  static int put(Domain* domain, const rdm_mr* mr);

  // Why the last registration failed, as a sentence; or empty.
  const char* why() const { return parts_.complaints.why(); }

  // Checks entries, counts and sums against each other. For tests, while nobody registers.
  bool validate() const;

 private:
  friend struct InlineLayout;  // domain.cpp

  static int lookup_slowly(Domain* domain, const void* address, size_t length, rdm_mr* out);
  static int get_slowly(Domain* domain, const void* address, size_t length, rdm_mr* out,
                        uint32_t touched);
  static int put_slowly(Domain* domain, const rdm_mr* mr, uint32_t touched);

  DomainParts parts_;  // first: its first part is what a hit reads
  RegionRegistration registration_;
  RegionDeregistration deregistration_;
  KeyHolds key_holds_;
  std::atomic<uint32_t> pools_{0};  // that are open
};

// A hit. The slow path handles everything else. A call costs the processor a cycle for each cache
// line of code it runs through, more than the work: this fits into two if rdm_lookup is aligned to
// one (bench_lookup).
inline int Domain::lookup(Domain* domain, const void* address, size_t length, rdm_mr* out) {
  if (domain == nullptr || out == nullptr) [[unlikely]]
    return lookup_slowly(domain, address, length, out);
  if (domain->parts_.keys.find(address, length, out)) [[likely]]
    return RDM_OK;
  return lookup_slowly(domain, address, length, out);
}

[[gnu::always_inline]] inline int Domain::get(Domain* domain, const void* address, size_t length,
                                              rdm_mr* out) {
  uint32_t touched = PageMemo::kNone;
  if (domain != nullptr && out != nullptr && !domain->parts_.keys.is_in_window(address) &&
      domain->parts_.foreign->get_hit(address, length, out, &touched)) [[likely]] {
    return RDM_OK;
  }
  return get_slowly(domain, address, length, out, touched);
}

[[gnu::always_inline]] inline int Domain::put(Domain* domain, const rdm_mr* mr) {
  uint32_t touched = PageMemo::kNone;
  if (domain != nullptr && mr != nullptr && domain->parts_.foreign != nullptr &&
      domain->parts_.foreign->put_hit(*mr, &touched)) [[likely]] {
    return RDM_OK;
  }
  return put_slowly(domain, mr, touched);
}

}  // namespace rdmalloc
