// The registrations of foreign memory in one domain: found by address, shared by concurrent users
// of the same memory, and kept for the next user as long as the policy and the memory allow.
//
// A hit takes no lock: the page memo guesses an entry, a reference is taken, and then the entry is
// checked. A thread that ends entries dooms them first and checks the references afterwards. A miss
// inserts an entry under the lock, registers outside the lock, and publishes under it again; others
// that want the same memory wait for that. Deregistering happens outside the lock, too.
//
// Stale hits: on_change() removes everything in the range from the index before it returns, and
// marks what is being built, which is then only for its own user. monitor/changes.h explains what
// happens while a change is in progress.
//
// on_change() and is_cached() run anywhere, also inside malloc: under the lock nothing is
// allocated, and no system call is made except to wake waiting threads. Nothing else may be called
// inside malloc. Constant-initialised; never destroyed, only reopened, so that a hit during close
// reads valid memory.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "regcache/foreign/cache_core.h"
#include "regcache/foreign/monitor/changes.h"
#include "regcache/foreign/monitor/monitor.h"
#include "regcache/foreign/page_memo.h"

namespace rdmalloc {

// How a cache registers: what it uses of its domain.
class ForeignDevice {
 public:
  // Both return statuses of rdmalloc.h and backend.h; RDM_NOT_REGISTERED: the device may have no
  // more memory regions. On failure `why` gets a sentence.
  //
  // `keeps_room`: when it is gone, what it took of limits stays taken, for the next registration,
  // which is no shorter and passes its length as `kept` (else 0). It is free if that one fails.
  virtual int register_foreign(uintptr_t base, size_t length, size_t kept, rdm_backend_key* key,
                               char* why, size_t why_size) = 0;
  virtual int deregister_foreign(size_t length, const rdm_backend_key& key, bool keeps_room) = 0;

  // Inside malloc, after a change: something is left to deregister_idle().
  virtual void put_off() = 0;

  // Whether other caches with the same budget gave up enough to register this many bytes; and
  // whether giving up everything idle, here and there, would be enough.
  virtual bool reclaim(size_t length) = 0;
  virtual bool may_reclaim(size_t length) = 0;

  // Whether later gets may find a registration of this range. False: it is for one use.
  virtual bool may_keep(uintptr_t base, size_t length) {
    (void)base;
    (void)length;
    return true;
  }

  // Whether registrations of memory there are for current users only: not watched, shared by those
  // who ask while somebody uses them, and ended with their last user.
  virtual bool is_for_users_only(uintptr_t base) {
    (void)base;
    return false;
  }

  virtual size_t alignment() const = 0;   // bytes; a power of two, at least a page
  virtual size_t max_length() const = 0;  // bytes of one registration
  virtual bool may_run_in_malloc() const = 0;

 protected:
  ~ForeignDevice() = default;
};

struct ForeignSettings {
  CacheLimits limits;
  uint32_t wait_ms = 0;  // milliseconds to wait when all that is registered is in use
  MonitorWish wish = MonitorWish::kAuto;
};

class ForeignCache final : private CacheCore {
 public:
  ForeignCache() : CacheCore(kWords) {}

  // Uses `device` until it is closed. Takes no memory and registers nothing yet.
  void open(const ForeignSettings& settings, ForeignDevice* device) EXCLUDES(cache_lock);

  // Deregisters everything. RDM_BUSY, and it stays open: `*users` registrations are in use, and
  // only what was idle is gone.
  // RDM_SYSTEM: one could not be deregistered.
  int close(uint32_t* users) EXCLUDES(cache_lock);

  // rdm_get and rdm_put for memory outside the window: call the hit function first. It takes no
  // lock and calls nothing, and serves only what is registered and stays so. If it returns false,
  // call the slow one with the entry (or PageMemo::kNone) that the first one touched. On failure
  // last_error() holds the sentence.
  bool get_hit(const void* address, size_t length, rdm_mr* out, uint32_t* touched);
  int get_slowly(const void* address, size_t length, rdm_mr* out, uint32_t touched)
      EXCLUDES(cache_lock);
  void release_touched(uint32_t touched) EXCLUDES(cache_lock);
  bool put_hit(const rdm_mr& mr, uint32_t* touched);
  int put_slowly(const rdm_mr& mr, uint32_t touched) EXCLUDES(cache_lock);

  // See monitor/changes.h.
  void on_change(uintptr_t base, uintptr_t end) EXCLUDES(cache_lock);
  bool is_cached(uintptr_t base, uintptr_t end) EXCLUDES(cache_lock);

  // Gives up idle registrations, least recently used first, until this many bytes are free or none
  // is left; true if there was any. For those who need the budget more.
  bool give_up(size_t wanted) EXCLUDES(cache_lock);
  // Gives up this many registrations or, returning false, none.
  bool give_up_count(size_t wanted) EXCLUDES(cache_lock);
  // How much could be given up, counted up to `enough`.
  uint64_t idle_bytes(uint64_t enough) EXCLUDES(cache_lock);
  size_t idle_count(size_t enough) EXCLUDES(cache_lock);

  // Deregisters what on_change() had to leave. False: something is still left.
  bool deregister_idle() EXCLUDES(cache_lock);

  void note_fork_child();

  using CacheCore::bytes;
  using CacheCore::count;
  using CacheCore::evictions;
  using CacheCore::misses;
  // Ever: what misses registered, and what was given up because the memory changed.
  uint64_t registrations() const { return registrations_.load(std::memory_order_relaxed); }
  uint64_t invalidations() const { return invalidations_.load(std::memory_order_relaxed); }
  bool validate() EXCLUDES(cache_lock);

 private:
  static const CacheWords kWords;
  // A range in whole units of the device's alignment: what a get asks for, or what it extends that
  // to.
  struct Range {
    uintptr_t base, end;
    size_t length() const { return end - base; }
  };
  struct Request;

  static void fill(const CacheEntry& entry, rdm_mr* out);
  void hand_out(const CacheEntry& entry, uintptr_t at, rdm_mr* out);
  static void fill_key(const CacheEntry& entry, rdm_mr* out);
  static bool is_of(const CacheEntry& entry, const rdm_mr& mr);

  bool start() EXCLUDES(cache_lock);
  static Monitor& monitor() { return monitor_started(); }
  int check(Request* request) const REQUIRES(cache_lock);
  int find_or_build(Request* request, rdm_mr* out) REQUIRES(cache_lock);
  // What lies before and after an address in the index; `before`: null if nothing does.
  struct Gap {
    CacheEntry* before;
    EntriesByBase::iterator after;
  };
  Gap gap_of(uintptr_t at) REQUIRES(cache_lock);
  // Whether nothing indexed overlaps the range. The gap is that of one of its bytes.
  bool lies_in(const Range& range, const Gap& gap) const REQUIRES(cache_lock);
  CacheEntry* first_overlapping(const Range& range) REQUIRES(cache_lock);
  bool is_being_built(const Range& range) const REQUIRES(cache_lock);
  Range united(Range range) REQUIRES(cache_lock);
  Range widened(const Request& request) REQUIRES(cache_lock);
  CacheEntry* admit(Request* request, size_t length) REQUIRES(cache_lock);
  int build(Request* request, const Range& range, CacheEntry* entry, rdm_mr* out)
      REQUIRES(cache_lock);
  bool may_stay(const Range& range) const REQUIRES(cache_lock);
  void publish(const Request& request, const Range& range, CacheEntry* entry) REQUIRES(cache_lock);

  int make(CacheEntry& entry, Attempt* attempt) EXCLUDES(cache_lock) override;
  int end(CacheEntry& entry, bool may_wait) EXCLUDES(cache_lock) override {
    return end(entry, may_wait, false);
  }
  int end(CacheEntry& entry, bool may_wait, bool keeps_room) EXCLUDES(cache_lock);
  bool reclaim(const CacheEntry& entry) EXCLUDES(cache_lock) override {
    return device_->reclaim(entry.end() - entry.begin());
  }
  bool may_reclaim(const CacheEntry& entry) EXCLUDES(cache_lock) override {
    return device_->may_reclaim(entry.end() - entry.begin());
  }
  void note_unindexed(CacheEntry& entry) REQUIRES(cache_lock) override;
  bool evict_overlapping(const CacheEntry& entry) REQUIRES(cache_lock) override;
  bool overlaps_what_is_used(const CacheEntry& entry) REQUIRES(cache_lock) override;
  bool evict_overlapping(const Range& range) REQUIRES(cache_lock);

  PageMemo memo_;  // what a hit reads
  ForeignSettings settings_;
  std::atomic<MonitorWish> wish_{};  // of settings_, for readers without the lock
  ForeignDevice* device_ = nullptr;
  // Written under the lock; read without it for statistics.
  std::atomic<uint64_t> registrations_{0};
  std::atomic<uint64_t> invalidations_{0};
};

inline void ForeignCache::fill(const CacheEntry& entry, rdm_mr* out) {
  out->base = reinterpret_cast<void*>(entry.begin());
  out->length = entry.length.load(std::memory_order_relaxed);
  fill_key(entry, out);
}

inline void ForeignCache::fill_key(const CacheEntry& entry, rdm_mr* out) {
  const uint64_t keys = entry.keys.load(std::memory_order_relaxed);
  __builtin_memcpy(&out->lkey, &keys, sizeof keys);
  out->handle = entry.handle.load(std::memory_order_relaxed);
}

[[gnu::always_inline]] inline bool ForeignCache::get_hit(const void* address, size_t length,
                                                         rdm_mr* out, uint32_t* touched) {
  const auto at = reinterpret_cast<uintptr_t>(address);
  *touched = PageMemo::kNone;
  ForeignHitCounter::Place* const place = ForeignHitCounter::place();
  // No thread has entered before the memo is open.
  if (place == nullptr || !policy_.has_entered(ForeignHitCounter::index_of(place)) ||
      changes.is_held_up()) [[unlikely]]
    return false;
  const uint32_t index = memo_.find(at);
  if (index == PageMemo::kNone) [[unlikely]]
    return false;
  CacheEntry& entry = policy_.entry(index);
  // From here on the entry cannot become another one.
  const bool is_live = policy_.reference(ForeignHitCounter::index_of(place), entry, index);
  const uintptr_t base = entry.begin();
  const size_t registered = entry.length.load(std::memory_order_relaxed);
  const size_t into = at - base;
  // A length of zero wraps around, and fails.
  if (!is_live || into >= registered || length - 1 >= registered - into) [[unlikely]] {
    *touched = index;
    return false;
  }
  out->base = reinterpret_cast<void*>(base);
  out->length = registered;
  fill_key(entry, out);
  policy_.touch(entry);
  ForeignHitCounter::add_one(place);
  ForeignHitCounter::hint(place).store(index, std::memory_order_relaxed);
  return true;
}

inline bool ForeignCache::is_of(const CacheEntry& entry, const rdm_mr& mr) {
  uint64_t keys;
  __builtin_memcpy(&keys, &mr.lkey, sizeof keys);
  return entry.begin() == reinterpret_cast<uintptr_t>(mr.base) &&
         entry.length.load(std::memory_order_relaxed) == mr.length &&
         entry.keys.load(std::memory_order_relaxed) == keys &&
         entry.handle.load(std::memory_order_relaxed) == mr.handle;
}

[[gnu::always_inline]] inline bool ForeignCache::put_hit(const rdm_mr& mr, uint32_t* touched) {
  *touched = PageMemo::kNone;
  ForeignHitCounter::Place* const place = ForeignHitCounter::place();
  if (place == nullptr || !policy_.has_entered(ForeignHitCounter::index_of(place)) ||
      mr.length == 0) [[unlikely]]
    return false;
  // Mostly what this thread got last, in any domain; then the memo's line is not needed.
  uint32_t index = ForeignHitCounter::hint(place).load(std::memory_order_relaxed);
  if (policy_.entry(index).begin() != reinterpret_cast<uintptr_t>(mr.base)) {
    index = memo_.find(reinterpret_cast<uintptr_t>(mr.base));
    if (index == PageMemo::kNone) [[unlikely]]
      return false;
  }
  const CacheEntry& entry = policy_.entry(index);
  if (entry.state.load(std::memory_order_relaxed) != EntryState::kLive || !is_of(entry, mr))
      [[unlikely]]
    return false;
  if (policy_.release(ForeignHitCounter::index_of(place), entry, index)) [[likely]]
    return true;
  *touched = index;
  return false;
}

}  // namespace rdmalloc
