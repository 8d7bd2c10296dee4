// A domain: one device, the rights it gives, and the table of the regions that are registered with
// it.
//
// lookup() takes no lock and may be called from any thread. register_region() may be called from
// several threads for any regions, and inside malloc if the backend permits that: it calls only the
// backend, and waits for nobody unless asked to. The registry calls open() and close(), one thread
// at a time. Domains are never destroyed, only reused, so that a lookup in a domain that is being
// closed reads valid memory.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "allocator/mutex.h"
#include "include/rdmalloc/backend.h"
#include "regcache/domain/complaints.h"
#include "regcache/domain/device.h"
#include "regcache/domain/early_parts.h"
#include "regcache/domain/entrance.h"
#include "regcache/domain/key_table.h"
#include "regcache/domain/key_uses.h"
#include "regcache/domain/refusals.h"
#include "regcache/domain/region_mrs.h"
#include "regcache/domain/region_source.h"
#include "regcache/domain/retries.h"
#include "regcache/foreign/foreign_cache.h"
#include "regcache/thread_counter.h"

namespace rdmalloc {

class Domain {
 public:
  constexpr Domain() = default;
  Domain(const Domain&) = delete;
  Domain& operator=(const Domain&) = delete;

  // Asks the backend for its limits, and accepts regions from then on; registers none itself.
  // Returns a status of rdmalloc.h.
  int open(const rdm_backend& backend, void* context, unsigned access, unsigned flags,
           const RegionSource& source, PinAccount* account, Retries* retries,
           DomainCounters* counters);

  // Waits until no thread registers any more, and deregisters everything, last region first.
  // RDM_SYSTEM: the backend refused one; RDM_BUSY, and the domain stays open: foreign memory is in
  // use, or pools are open. `tell_backend`: call its closed().
  int close(bool tell_backend);

  // Sets the cache of this domain's foreign memory: once, before the domain is first opened,
  // because others read it without a lock from then on.
  void set_foreign(ForeignCache* foreign);
  ForeignCache& foreign() const { return *foreign_; }

  // A pool is going to hand out this domain's keys: the domain cannot be closed until the pool lets
  // go. False: the domain is not open, or does not serve pools. Not for a domain that another
  // thread is closing.
  bool hold();
  void let_go() { pools_.fetch_sub(1, std::memory_order_release); }

  // In a child of fork: nothing is registered any more, and no pool holds the domain.
  void note_fork_child();

  // Opening has registered the regions that there were. Until then threads inside malloc leave this
  // domain's regions to the opening thread, which may be in a system call that keeps them out of
  // the device for long: the opener looks again after this.
  void end_replay() { is_replayed_.store(true, std::memory_order_seq_cst); }

  // Opening succeeded. From now on failures are reported to the user, including one that opening
  // tolerated.
  void end_opening() { complaints_.end_opening(); }

  bool is_open() const { return entrance_.is_open(); }
  bool is_in_use() const { return entrance_.is_in_use(); }
  // This thread is in an operation of some backend. It must not open or close domains there:
  // opening and closing hold a lock and wait for such operations to end.
  static bool is_in_backend();
  // Only lookups and close() may call the backend (RDM_DOMAIN_CALLERS_ONLY).
  bool is_callers_only() const { return callers_only_; }
  // Of all regions, only exposed ones are registered (RDM_DOMAIN_NAMED_ONLY).
  bool is_named_only() const { return mrs_.is_exposed_only(); }
  // The domain must be open.
  bool may_run_in_malloc() const { return device_.may_run_in_malloc(); }
  Device& device() { return device_; }
  const rdm_backend_limits& limits() const { return device_.limits(); }

  // RDM_OK: the region is registered now, as far as the device's limits allow, or need not be
  // because it is not pinned. RDM_BACKEND_LATER: called inside malloc, where this backend may not
  // run.
  using Caller = RegionCaller;
  int register_region(const Region& region, Caller caller);

  // Does what the registrar has to do here. `all_due`: tries all that was refused once more.
  // `next`: when to come again, a time as of Retries::now_ns(), or kNever. `is_done`: false if the
  // backend asks to come later.
  struct Turn {
    uint64_t next = Retries::kNever;
    bool is_done = true;
  };
  Turn take_turn(bool all_due);
  // True when the registrar has at least that much to register now; what was refused does not
  // count, nor what is registered inside malloc.
  bool has_to_come(size_t bytes) const;

  // Registers each region at the first lookup in it: RDM_DOMAIN_WHEN_ASKED,
  // RDM_DOMAIN_CALLERS_ONLY.
  bool registers_when_asked() const { return when_asked_.load(std::memory_order_relaxed); }

  // This domain will register the region as soon as it can, and thereby populate its pages.
  bool wants_pages(const Region& region) const;
  // Deregisters a region that has lost all its pages; does nothing while another thread is working
  // on it, or inside malloc if the backend may not run there.
  void retire_region(const Region& region, Caller caller);
  // Before a fork, in a domain of RDM_DOMAIN_RELEASE_AT_FORK: deregisters idle foreign memory and
  // all regions except those that another thread is working on. From then on lookups register.
  void release_for_fork();
  // The domain still has a registration of a region that has lost all its pages, or a thread may be
  // reading its entry.
  bool keeps(const Region& region) const {
    return is_in_use() &&
           (entrance_.has_anyone_inside() ||
            entry_of(region).state.load(std::memory_order_seq_cst) != kUnregistered ||
            early_.has_of(region.index));
  }

  // Null pointers are RDM_INVALID.
  static int lookup(Domain* domain, const void* address, size_t length, rdm_mr* out);
  int lookup(const void* address, size_t length, rdm_mr* out) {
    return lookup(this, address, length, out);
  }

  // A lookup whose key stays registered until let_go(*use), unless its region loses its pages; see
  // held_keys.h. A hit takes no lock and makes no system call. RDM_NOT_REGISTERED while the region
  // is being given back. Any thread, once the domain is open; such a domain has no other lookups.
  int hold(const void* address, size_t length, rdm_mr* out, uint32_t* use);
  void let_go(uint32_t use) { uses_.end(use); }
  // About how many registered bytes nobody holds a key of; 0 if hold() was never called.
  size_t unused_bytes() const;
  // Deregisters this many of these bytes, or all of them, and returns how many. They are registered
  // again when they are next asked for. Calls the backend, and waits only for the registrar, if
  // that is working on one of them; only the regions that go are marked as busy.
  size_t give_back(size_t bytes);

  // rdm_get and rdm_put. Null pointers are RDM_INVALID.
  static int get(Domain* domain, const void* address, size_t length, rdm_mr* out);
  static int put(Domain* domain, const rdm_mr* mr);

  rdm_backend_request request_for_foreign(uintptr_t base, size_t length) const;
  // Registers regions that threads inside malloc could not register: to be called by one that can.
  void register_missed();
  // False for pages that lookups pass over in a registered region: the heap may move them, and no
  // monitor may watch them, because watching splits mappings.
  bool may_keep(uintptr_t base, size_t length) const;
  // Heap memory that the program named, of a heap that is not registered: what malloc puts there
  // next was not named.
  bool is_for_users_only(uintptr_t base) const {
    return is_named_only() && is_in_window(reinterpret_cast<const void*>(base));
  }

  // Why the last registration failed, as a sentence; or empty.
  const char* why() const { return complaints_.why(); }

  // Checks entries, counts and sums against each other. For tests, while nobody registers.
  bool validate(const RegionTable& regions) const;

 private:
  friend struct InlineLayout;  // domain.cpp

  KeyEntry& entry_of(const Region& region) const { return entries_[region.index + size_t{1}]; }

  void let_go_of(const Region& region, KeyEntry& entry);
  size_t unused_bytes(const Region& region) const;
  size_t give_back_region(const Region& region, KeyEntry& entry);
  bool has_no_leave_of(Caller caller) const {
    return (callers_only_ || was_released_.load(std::memory_order_relaxed)) &&
           caller != Caller::kLookup;
  }
  size_t bytes_to_come(const Region& region) const;
  void retire_leftovers();
  bool is_put_off() const;
  bool waits_for_backend(Caller caller, uint64_t* waited_ns);
  int register_entered(const Region& region, Caller caller);
  int register_claimed(const Region& region, KeyEntry& entry, Caller caller);
  uint64_t count_changes() const {
    const PageMarks* const marks = source_->marks();
    return marks == nullptr ? 0 : marks->changes();
  }
  int deregister(const Region& region);
  int close_foreign();
  int refuse_while_pools(uint32_t pools) const;
  static int lookup_slowly(Domain* domain, const void* address, size_t length, rdm_mr* out);
  int find_or_register(const void* address, size_t length, rdm_mr* out);
  int lookup_entered(const void* address, size_t length, rdm_mr* out);
  int lookup_piece(const Region& region, const void* address, size_t length, rdm_mr* out);
  bool is_still_to_come(const Region& region, size_t length);
  void ask_for_rest(KeyEntry& entry);
  bool find_early(const Region& region, const void* address, size_t length, rdm_mr* out);
  bool register_early(const Region& region, uintptr_t address, size_t length);
  bool let_go_of_early(const Region& region);
  static int get_slowly(Domain* domain, const void* address, size_t length, rdm_mr* out,
                        uint32_t touched);
  static int put_slowly(Domain* domain, const rdm_mr* mr, uint32_t touched);
  bool is_beside_registrations(const Region* region, uintptr_t address, size_t length) const;
  bool has_gap(const Region& region, size_t offset, size_t length) const;
  bool has_gaps(const Region& region) const {
    return entry_of(region).length == 0 || mrs_.has_hole(region, region.length);
  }
  bool is_of_region(const Region& region, const rdm_mr& mr) const;
  int get_of_window(const void* address, size_t length, rdm_mr* out);
  int refuse_not_open() const;
  bool is_in_window(const void* address) const {
    return reinterpret_cast<uintptr_t>(address) - window_base_ < window_size_;
  }
  static void fill(void* base, size_t length, const rdm_backend_key& key, rdm_mr* out) {
    *out = {base, length, key.lkey, key.rkey, key.handle};
  }
  int miss(int status, const char* why);

  // What a hit reads, together, and first of all: include/rdmalloc/inline.h reads it, too.
  uintptr_t window_base_ = 0;
  size_t window_size_ = 0;
  const std::atomic<uint16_t>* by_granule_ = nullptr;
  KeyEntry* entries_ = nullptr;  // by region index + 1; the first stays empty
  DomainCounters* counters_ = nullptr;

  Entrance entrance_;  // to what may call the backend
  Device device_;
  Complaints complaints_;
  RegionMrs mrs_;
  Refusals refusals_;
  bool callers_only_ = false;
  bool does_not_wait_ = false;
  bool releases_at_fork_ = false;
  std::atomic<bool> was_released_{false};  // since it was opened
  std::atomic<bool> when_asked_{false};    // read while another use of this domain is opened, too
  const RegionSource* source_ = nullptr;
  Retries* retries_ = nullptr;
  ForeignCache* foreign_ = nullptr;
  EarlyParts early_;
  KeyUses uses_;
  std::atomic<bool> counts_uses_{false};      // since it was opened
  std::atomic<uint32_t> pools_{0};            // that are open
  std::atomic<uintptr_t> put_off_thread_{0};  // whom the backend told to come later, ...
  std::atomic<uint64_t> put_off_at_{0};       // ... and when: os::now_ns()
  std::atomic<bool> has_missed_{false};       // regions, inside malloc: see register_missed()
  std::atomic<bool> is_replayed_{false};
};

// A hit. The slow path handles everything else. A call costs the processor a cycle for each cache
// line of code it runs through, more than the work: this fits into two if rdm_lookup is aligned to
// one (bench_lookup).
inline int Domain::lookup(Domain* domain, const void* address, size_t length, rdm_mr* out) {
  if (domain == nullptr || out == nullptr) [[unlikely]]
    return lookup_slowly(domain, address, length, out);
  const uintptr_t at = reinterpret_cast<uintptr_t>(address);
  const uintptr_t offset = at - domain->window_base_;
  if (offset < domain->window_size_) [[likely]] {
    const uint16_t slot =
        domain->by_granule_[offset >> Window::kGranuleShift].load(std::memory_order_acquire);
    const KeyEntry& entry = domain->entries_[slot];
    const size_t registered = entry.length.load(std::memory_order_acquire);
    const uintptr_t base = entry.base.load(std::memory_order_relaxed);
    const size_t into = at - base;
    LookupCounter::Place* const place = LookupCounter::place();
    // A length of zero wraps around, and fails the second test.
    if (into < registered && length - 1 < registered - into && place != nullptr) [[likely]] {
      out->base = reinterpret_cast<void*>(base);
      out->length = registered;
      const uint64_t keys = entry.keys.load(std::memory_order_relaxed);
      __builtin_memcpy(&out->lkey, &keys, sizeof keys);
      out->handle = entry.handle.load(std::memory_order_relaxed);
      LookupCounter::add_one(place);
      return RDM_OK;
    }
  }
  return lookup_slowly(domain, address, length, out);
}

[[gnu::always_inline]] inline int Domain::get(Domain* domain, const void* address, size_t length,
                                              rdm_mr* out) {
  uint32_t touched = PageMemo::kNone;
  if (domain != nullptr && out != nullptr && !domain->is_in_window(address) &&
      domain->foreign_->get_hit(address, length, out, &touched)) [[likely]] {
    return RDM_OK;
  }
  return get_slowly(domain, address, length, out, touched);
}

[[gnu::always_inline]] inline int Domain::put(Domain* domain, const rdm_mr* mr) {
  uint32_t touched = PageMemo::kNone;
  if (domain != nullptr && mr != nullptr && domain->foreign_ != nullptr &&
      domain->foreign_->put_hit(*mr, &touched)) [[likely]] {
    return RDM_OK;
  }
  return put_slowly(domain, mr, touched);
}

}  // namespace rdmalloc
