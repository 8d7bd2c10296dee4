// A domain: one backend with its context, the rights it gives, and the table of what it registered.
//
// lookup() takes no lock and may be called from any thread. register_region() may be called from
// several threads for any regions, and inside malloc where the backend permits it: it makes no call
// but the backend's and waits for nobody unless asked to. open() and close() are called by the
// registry, one thread at a time. Domains are never destroyed, only used again, so that a lookup
// that comes while its domain is closed reads memory that is there.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "allocator/mutex.h"
#include "include/rdmalloc/backend.h"
#include "regcache/cache/foreign_cache.h"
#include "regcache/early_parts.h"
#include "regcache/key_table.h"
#include "regcache/pin_account.h"
#include "regcache/region_source.h"
#include "regcache/retries.h"
#include "regcache/thread_counter.h"

namespace rdmalloc {

// Shared by the domains of a registry.
struct DomainCounters {
  LookupCounter lookups;
  std::atomic<uint64_t> misses{0};
  std::atomic<uint64_t> registrations{0};
  std::atomic<uint64_t> registered_bytes{0};
  std::atomic<uint64_t> registration_ns{0};
};

class Domain {
 public:
  constexpr Domain() = default;
  Domain(const Domain&) = delete;
  Domain& operator=(const Domain&) = delete;

  // Takes the backend, asks for its limits, and from then on takes regions; registers none. A
  // status of rdmalloc.h.
  int open(const rdm_backend& backend, void* context, unsigned access, unsigned flags,
           const RegionSource& source, PinAccount* account, Retries* retries,
           DomainCounters* counters);

  // Deregisters everything, last region first, when no thread registers any more. RDM_SYSTEM when
  // the backend refused one; RDM_BUSY, and the domain stays open, when foreign memory is in use, or
  // pools are open.
  // `tell_backend`: call its closed().
  int close(bool tell_backend);

  // The cache of this domain's foreign memory: once, before it is first opened, for others read it
  // without a lock from then on.
  void set_foreign(ForeignCache* foreign) { foreign_ = foreign; }
  ForeignCache& foreign() const { return *foreign_; }

  // A pool is to hand out this domain's keys: it is not closed until the pool lets go. False: it is
  // not open, or its keys are not for pools. Not for a domain that another thread is closing.
  bool hold();
  void let_go() { pools_.fetch_sub(1, std::memory_order_release); }

  // In the child of a fork: nothing is registered any more, and no pool holds it.
  void note_fork_child();

  // Opening succeeded: from now on failures are told to the user, and one that was tolerated is.
  void end_opening();

  bool is_open() const { return phase_.load(std::memory_order_acquire) == Phase::kOpen; }
  bool is_in_use() const { return phase_.load(std::memory_order_acquire) != Phase::kFree; }
  // This thread is in an operation of some backend, which must not open or close domains: who
  // opens and closes holds a lock meanwhile, and waits for the operations to end.
  static bool is_in_backend();
  // Nobody but who looks up, or closes it, may have the backend called (RDM_DOMAIN_CALLERS_ONLY).
  bool is_callers_only() const { return callers_only_; }
  // Of regions it takes exposed ones (RDM_DOMAIN_NAMED_ONLY).
  bool is_named_only() const { return named_only_; }
  // Of an open domain.
  bool may_run_in_malloc() const { return (limits_.abilities & RDM_BACKEND_IN_MALLOC) != 0; }

  // RDM_OK when the region is registered now, or as far as the device's limits allow, or need not
  // be because it is not pinned. Called inside malloc, RDM_BACKEND_LATER when this backend may not
  // run there. Only a lookup, and opening, wait for another thread that is registering it, unless
  // it was refused before; and what was refused only the registrar tries again, when it is due.
  enum class Caller : uint8_t { kMalloc, kRegistrar, kLookup };
  int register_region(const Region& region, Caller caller);
  // When the registrar is to try again: Retries::now_ns(), or kNever.
  uint64_t next_try(const Region& region) const;
  // It is due now, if it was refused.
  void make_due(const Region& region);

  // Its regions, each at the first lookup in it: RDM_DOMAIN_WHEN_ASKED, RDM_DOMAIN_CALLERS_ONLY.
  bool registers_when_asked() const { return when_asked_.load(std::memory_order_relaxed); }

  // This domain will register the region, and its pages come by that.
  bool wants_pages(const Region& region) const {
    return takes(region) && (limits_.abilities & RDM_BACKEND_ON_DEMAND) == 0;
  }
  // Deregisters a region that has lost all its pages; nothing, while another thread is at it. Where
  // register_region() may be called.
  void retire_region(const Region& region);
  // Before a fork, of a domain of RDM_DOMAIN_RELEASE_AT_FORK: deregisters all regions, but such as
  // another thread is at, and what is idle of foreign memory. From then on lookups register.
  void release_for_fork();
  // Something of a region that has lost all its pages, or a thread that may be reading about it.
  bool keeps(const Region& region) const {
    return is_in_use() &&
           (registering_.load(std::memory_order_seq_cst) != 0 ||
            entry_of(region).state.load(std::memory_order_seq_cst) != kUnregistered ||
            early_.has_of(region.index));
  }

  // Null pointers are RDM_INVALID.
  static int lookup(Domain* domain, const void* address, size_t length, rdm_mr* out);
  int lookup(const void* address, size_t length, rdm_mr* out) {
    return lookup(this, address, length, out);
  }

  // rdm_get and rdm_put. Null pointers are RDM_INVALID.
  static int get(Domain* domain, const void* address, size_t length, rdm_mr* out);
  static int put(Domain* domain, const rdm_mr* mr);

  // What the cache does with the device: see ForeignDevice.
  int register_foreign(uintptr_t base, size_t length, rdm_backend_key* key, char* why,
                       size_t why_size);
  int deregister_foreign(size_t length, const rdm_backend_key& key);
  // Not what lookups pass over in a region that is registered: the heap may move these pages, and
  // no monitor may watch them, which splits mappings.
  bool may_keep(uintptr_t base, size_t length) const;
  // What is named of a heap that is not registered: the next that malloc puts there was not named.
  bool is_for_users_only(uintptr_t base) const {
    return named_only_ && is_in_window(reinterpret_cast<const void*>(base));
  }
  const rdm_backend_limits& limits() const { return limits_; }
  // So that foreign memory of that length may be registered.
  bool reclaim(size_t length) { return reclaim(limits_.charges, length); }
  // What is idle, here and in other domains, would be enough for that.
  bool may_reclaim(size_t length) const;

  // Why the last registration failed: a sentence, or empty.
  const char* why() const { return why_; }
  const char* backend_name() const { return backend_.name; }

  // Checks entries, counts and sums against each other; for tests, while nobody registers.
  bool validate(const RegionTable& regions) const;

 private:
  friend struct InlineLayout;  // domain.cpp
  enum class Phase : uint8_t { kFree, kOpen, kClosing, kForked };
  static constexpr size_t kLongestWhy = 320;
  static constexpr unsigned kRemoteRights = RDM_REMOTE_WRITE | RDM_REMOTE_READ | RDM_REMOTE_ATOMIC;

  KeyEntry& entry_of(const Region& region) const { return entries_[region.index + size_t{1}]; }
  bool takes(const Region& region) const;
  unsigned access_for(const Region& region) const;
  int charges_for(const Region& region) const;
  int ask_limits(void* context);
  bool enter();
  void leave();

  void let_go_of(const Region& region, KeyEntry& entry);
  bool has_no_leave_of(Caller caller) const {
    return (callers_only_ || was_released_.load(std::memory_order_relaxed)) &&
           caller != Caller::kLookup;
  }
  void retire_leftovers();
  bool is_put_off() const;
  bool waits_for_backend(Caller caller, uint64_t* waited_ns);
  int register_entered(const Region& region, Caller caller);
  int register_claimed(const Region& region, KeyEntry& entry, Caller caller);
  int register_whole(const Region& region, KeyEntry& entry, size_t length);
  int register_pieces(const Region& region, KeyEntry& entry, size_t length);
  template <typename Visit>
  void for_each_piece(const Region& region, size_t length, Visit visit) const;
  bool has_hole(const Region& region, size_t length) const;
  uint64_t count_changes() const {
    const PageMarks* const marks = source_->marks();
    return marks == nullptr ? 0 : marks->changes();
  }
  int deregister_piece(const Region& region, const Piece& piece, bool may_ask_again);
  void register_missed();
  rdm_backend_request request_for(const Region& region, size_t offset, size_t length) const;
  int register_range(const Region& region, size_t offset, size_t length, rdm_backend_key* key);
  int register_memory(const rdm_backend_request& request, int charges, rdm_backend_key* key,
                      char* why, size_t why_size);
  int deregister_memory(size_t length, int charges, const rdm_backend_key& key,
                        bool may_ask_again = false);
  int deregister(const Region& region);
  int close_foreign();
  int refuse_while_pools(uint32_t pools) const;
  size_t most_for(const rdm_backend_request& request) const;
  bool may_try_again(const Region& region, const KeyEntry& entry, Caller caller);
  bool is_due(const Region& region, const KeyEntry& entry) const;
  void say_no(const Region& region, const KeyEntry& entry);
  bool has_room(const Region& region) const;
  bool may_make_room(const Region& region, const KeyEntry& entry) const;
  void wait_for_room(const Region& region) const;
  size_t shortfall(const Region& region) const {
    return account_->shortfall(charges_for(region), registered_length(region));
  }
  size_t missing_count(const Region& region) const;
  uint64_t in_use(const Region& region) const;
  size_t registered_length(const Region& region) const {
    return os::align_down(region.length, limits_.alignment);
  }
  bool reclaim(int charges, size_t length);
  bool can_reclaim(int charges, size_t bytes) const;
  bool is_limit_raised(int charges, size_t shortfall);
  bool makes_room(const Region& region, int status, size_t length);
  bool is_crowded() const;
  bool make_room_for_pieces(KeyEntry& entry, size_t count);
  int refuse(const Region& region, KeyEntry& entry, int status, Caller caller);
  int refuse_as(Cause cause, const Region& region, KeyEntry& entry, int status);
  static int put_off(KeyEntry& entry, int status);
  static int lookup_slowly(Domain* domain, const void* address, size_t length, rdm_mr* out);
  int find_or_register(const void* address, size_t length, rdm_mr* out);
  int lookup_entered(const void* address, size_t length, rdm_mr* out);
  int lookup_piece(const Region& region, const void* address, size_t length, rdm_mr* out);
  bool is_still_to_come(const Region& region, size_t length);
  bool find_early(const Region& region, const void* address, size_t length, rdm_mr* out);
  bool register_early(const Region& region, uintptr_t address, size_t length);
  bool let_go_of_early(const Region& region);
  static int get_slowly(Domain* domain, const void* address, size_t length, rdm_mr* out,
                        uint32_t touched);
  static int put_slowly(Domain* domain, const rdm_mr* mr, uint32_t touched);
  bool is_beside_registrations(const Region* region, uintptr_t address, size_t length) const;
  bool has_gap(const Region& region, size_t offset, size_t length) const;
  bool has_gaps(const Region& region) const {
    return entry_of(region).length == 0 || has_hole(region, region.length);
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
  void say(const char* why);
  void warn();
  void assert_backend_may_run() const {
    if (!may_run_in_malloc()) assert_no_rank();
  }

  // What a hit reads, together, and first of all: include/rdmalloc/inline.h reads it, too.
  uintptr_t window_base_ = 0;
  size_t window_size_ = 0;
  const std::atomic<uint16_t>* by_granule_ = nullptr;
  KeyEntry* entries_ = nullptr;  // by region index + 1; the first stays empty
  DomainCounters* counters_ = nullptr;

  std::atomic<Phase> phase_{Phase::kFree};
  std::atomic<uint32_t> registering_{0};  // threads that may be calling the backend
  std::atomic<size_t> count_{0};          // MRs registered, or being so
  rdm_backend backend_{};
  void* context_ = nullptr;
  rdm_backend_limits limits_{};
  unsigned access_ = 0;
  bool share_heap_ = false;
  bool callers_only_ = false;
  bool does_not_wait_ = false;
  bool releases_at_fork_ = false;
  bool named_only_ = false;
  std::atomic<bool> was_released_{false};  // since it was opened
  std::atomic<bool> when_asked_{false};    // read while another use of this domain is opened, too
  const RegionSource* source_ = nullptr;
  PinAccount* account_ = nullptr;
  Retries* retries_ = nullptr;
  ForeignCache* foreign_ = nullptr;
  EarlyParts early_;
  std::atomic<uint32_t> pools_{0};            // that are open
  std::atomic<uintptr_t> put_off_thread_{0};  // whom the backend told to come later, ...
  std::atomic<uint64_t> put_off_at_{0};       // ... and when: os::now_ns()
  std::atomic<bool> has_missed_{false};       // regions, inside malloc: see register_missed()
  std::atomic<bool> opening_{false};
  std::atomic<bool> warned_{false};
  std::atomic<bool> saying_{false};
  char why_[kLongestWhy] = {};
};

// A hit. Everything else is the slow path's to find out. A call costs the processor a cycle for
// each cache line of code it runs through, more than the work: this fits into two, where rdm_lookup
// is aligned to one (bench_lookup).
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
