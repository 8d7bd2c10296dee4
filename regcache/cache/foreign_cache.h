// The registrations of foreign memory in one domain: found by address, shared by who asks for the
// same at the same time, kept for the next one as long as the policy and the memory itself allow.
//
// A hit takes no lock: the page memo guesses an entry, a reference is taken, and then the entry is
// looked at; whoever ends entries dooms them first and looks at the references then. A miss inserts
// what it is building under the lock, registers outside of it, and publishes under it again; others
// who want the same memory wait for that. Deregistering happens outside the lock, too.
//
// Stale hits: on_change() takes everything of the range out of the index before it returns, and
// marks what is being built, which then is its user's alone. See monitor/changes.h for what happens
// while a change is under way.
//
// on_change() and is_cached() run anywhere, inside malloc too: nothing is allocated under the lock,
// and no system call made but waking who waits. Everything else never inside malloc.
// Constant-initialised; never destroyed, only opened again, so that a hit that comes while it is
// closed reads memory that is there.
#pragma once

#include <atomic>
#include <boost/intrusive/set.hpp>
#include <cstddef>
#include <cstdint>

#include "allocator/mutex.h"
#include "regcache/cache/page_memo.h"
#include "regcache/cache/policy.h"
#include "regcache/monitor/changes.h"
#include "regcache/monitor/monitor.h"

namespace rdmalloc {

// How a cache registers: what it has of its domain.
class ForeignDevice {
 public:
  // Statuses of rdmalloc.h and backend.h; RDM_NOT_REGISTERED: the device may have no more memory
  // regions. On failure a sentence.
  virtual int register_foreign(uintptr_t base, size_t length, rdm_backend_key* key, char* why,
                               size_t why_size) = 0;
  virtual int deregister_foreign(size_t length, const rdm_backend_key& key) = 0;

  // Inside malloc, after a change: something is left to deregister_idle().
  virtual void put_off() = 0;

  virtual size_t alignment() const = 0;   // bytes; a power of two, at least a page
  virtual size_t max_length() const = 0;  // bytes of one registration
  virtual bool may_run_in_malloc() const = 0;

 protected:
  ~ForeignDevice() = default;
};

struct ForeignCounters {
  std::atomic<uint64_t> misses{0};
  std::atomic<uint64_t> evictions{0};
  std::atomic<uint64_t> invalidations{0};
};

struct ForeignSettings {
  CacheLimits limits;
  uint32_t wait_ms = 0;  // milliseconds to wait when all that is registered is in use
  MonitorWish wish = MonitorWish::kAuto;
};

class ForeignCache {
 public:
  ForeignCache() = default;
  ForeignCache(const ForeignCache&) = delete;
  ForeignCache& operator=(const ForeignCache&) = delete;

  // `device` until it is closed. Takes no memory and registers nothing yet.
  void open(const ForeignSettings& settings, ForeignDevice* device, ForeignCounters* counters);

  // Deregisters everything. RDM_BUSY, and nothing is changed: `*users` registrations are in use.
  // RDM_SYSTEM: one could not be deregistered.
  int close(uint32_t* users);

  // rdm_get and rdm_put for memory outside the window: the first of each without a lock or a call,
  // for what is there and stays there; where it says false, the second, with the entry (or
  // PageMemo::kNone) that the first one touched. On failure the sentence is last_error().
  bool get_hit(const void* address, size_t length, rdm_mr* out, uint32_t* touched);
  int get_slowly(const void* address, size_t length, rdm_mr* out, uint32_t touched);
  bool put_hit(const rdm_mr& mr, uint32_t* touched);
  int put_slowly(const rdm_mr& mr, uint32_t touched);

  // See monitor/changes.h.
  void on_change(uintptr_t base, uintptr_t end);
  bool is_cached(uintptr_t base, uintptr_t end);

  // Gives up idle registrations, least recently used first, until so many bytes are free or none is
  // left; true if any was. For who needs the budget more.
  bool give_up(size_t bytes);

  // What on_change() had to leave.
  void deregister_idle();

  void note_fork_child();

  uint32_t count() const { return policy_.count(); }
  uint64_t bytes() const { return policy_.bytes(); }
  bool validate();

 private:
  struct ByBase {
    bool operator()(const CacheEntry& a, const CacheEntry& b) const {
      return a.begin() < b.begin();
    }
    bool operator()(uintptr_t a, const CacheEntry& b) const { return a < b.begin(); }
    bool operator()(const CacheEntry& a, uintptr_t b) const { return a.begin() < b; }
  };
  template <template <class, class...> class Container>
  using EntriesByBase =
      Container<CacheEntry, boost::intrusive::compare<ByBase>,
                boost::intrusive::member_hook<CacheEntry, CacheEntry::Hook, &CacheEntry::in_index>>;
  // Whole units of the device's alignment that a get asks for, or that it makes of them.
  struct Range {
    uintptr_t base, end;
    size_t length() const { return end - base; }
  };
  struct Asked;

  static void fill(const CacheEntry& entry, rdm_mr* out);
  static void fill_key(const CacheEntry& entry, rdm_mr* out);
  static bool is_of(const CacheEntry& entry, const rdm_mr& mr);

  bool start();
  Monitor& monitor() const { return monitor_in_force(settings_.wish, nullptr); }
  int check(Asked* asked) const;
  int find_or_build(Asked* asked, rdm_mr* out);
  CacheEntry* find(uintptr_t at, uintptr_t end);
  CacheEntry* first_overlapping(const Range& range);
  bool is_being_built(const Range& range) const;
  Range widened(const Asked& asked);
  int build(Asked* asked, const Range& range, CacheEntry* entry, rdm_mr* out);
  int register_range(Asked* asked, const Range& range, rdm_backend_key* key);
  void publish(const Range& range, CacheEntry* entry, bool is_watched);
  bool make_room(const Asked& asked);
  bool evict_overlapping(const Range& range);
  bool wait_for_others(const Asked& asked);

  CacheEntry* find_in_use(const rdm_mr& mr);
  int settle(CacheEntry* entry);

  void doom(CacheEntry* entry);
  void unindex(CacheEntry* entry);
  void deregister_unlocked(CacheEntry* entry, bool may_wait);
  void deregister_all_idle(bool may_wait);
  void tell_waiters();
  void wait_for_news(uint64_t ns);

  // What a hit reads.
  PageMemo memo_;
  CachePolicy policy_;

  Mutex mutex_{Rank::kForeign};
  std::atomic<uint32_t> news_{0};  // something was built or ended: who waits looks again

  // Guarded by mutex_.
  bool open_ = false;
  EntriesByBase<boost::intrusive::set> index_;          // kLive, kTransient; they do not overlap
  EntriesByBase<boost::intrusive::multiset> building_;  // nor do these with each other
  EntriesByBase<boost::intrusive::multiset> doomed_;    // in use, and not to be used again
  CacheEntry* idle_ = nullptr;                          // kRemoving, to be deregistered
  uint32_t deregistering_ = 0;                          // kRemoving, by threads without the lock
  uint32_t waiting_ = 0;                                // threads that wait for news_

  ForeignSettings settings_;
  ForeignDevice* device_ = nullptr;
  ForeignCounters* counters_ = nullptr;
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
  if (!memo_.is_open() || place == nullptr || changes.is_held_up()) [[unlikely]]
    return false;
  const uint32_t index = memo_.find(at, [&](uint32_t guess) {
    const CacheEntry& entry = policy_.entry(guess);
    return at - entry.begin() < entry.length.load(std::memory_order_relaxed);
  });
  if (index == PageMemo::kNone) [[unlikely]]
    return false;
  const bool is_live = policy_.reference(ForeignHitCounter::index_of(place), index);
  CacheEntry& entry = policy_.entry(index);
  // Before it had a reference, the entry could become another.
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
  if (!memo_.is_open() || place == nullptr || mr.length == 0) [[unlikely]]
    return false;
  const uint32_t index = memo_.find(reinterpret_cast<uintptr_t>(mr.base), [&](uint32_t guess) {
    const CacheEntry& entry = policy_.entry(guess);
    return entry.state.load(std::memory_order_relaxed) == EntryState::kLive && is_of(entry, mr);
  });
  if (index == PageMemo::kNone) [[unlikely]]
    return false;
  if (policy_.release(ForeignHitCounter::index_of(place), index)) [[likely]]
    return true;
  *touched = index;
  return false;
}

}  // namespace rdmalloc
