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
// inside malloc. Never destroyed, only reopened, so that a hit during close reads valid memory.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "regcache/foreign/cache_core.h"
#include "regcache/foreign/entry_mr.h"
#include "regcache/foreign/foreign_operations.h"
#include "regcache/foreign/idle_registrations.h"
#include "regcache/foreign/monitor/changes.h"
#include "regcache/foreign/monitor/monitor.h"
#include "regcache/foreign/page_memo.h"
#include "regcache/thread_counter.h"

namespace rdmalloc {

struct ForeignSettings {
  CacheLimits limits;
  uint32_t wait_ms = 0;  // milliseconds to wait when all that is registered is in use
  MonitorWish wish = MonitorWish::kAuto;
};

class ForeignCache {
 public:
  ForeignCache();
  ForeignCache(const ForeignCache&) = delete;
  ForeignCache& operator=(const ForeignCache&) = delete;

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

  IdleRegistrations& idle() { return idle_; }

  void note_fork_child();

  // Registrations, and their bytes.
  uint32_t count() const { return core_.table().policy().account().count(); }
  uint64_t bytes() const { return core_.table().policy().account().bytes(); }
  const CacheCounters& counters() const { return core_.table().counters(); }
  bool validate() EXCLUDES(cache_lock);

 private:
  bool start() EXCLUDES(cache_lock);

  // What a hit reads comes first.
  PageMemo memo_;
  CacheCore core_;
  ForeignOperations operations_;
  IdleRegistrations idle_;
  CacheLimits limits_ GUARDED_BY(cache_lock);
  std::atomic<MonitorWish> wish_{};
};

[[gnu::always_inline]] inline bool ForeignCache::get_hit(const void* address, size_t length,
                                                         rdm_mr* out, uint32_t* touched) {
  const auto at = reinterpret_cast<uintptr_t>(address);
  *touched = PageMemo::kNone;
  CachePolicy& policy = core_.table().policy();
  CacheEntries& entries = policy.entries();
  ForeignHitCounter::Place* const place = ForeignHitCounter::place();
  // No thread has entered before the memo is open.
  if (place == nullptr || !entries.has_entered(ForeignHitCounter::index_of(place)) ||
      changes.is_held_up()) [[unlikely]]
    return false;
  const uint32_t index = memo_.find(at);
  if (index == PageMemo::kNone) [[unlikely]]
    return false;
  CacheEntry& entry = entries.at(index);
  // From here on the entry cannot become another one.
  const bool is_live = entries.reference(ForeignHitCounter::index_of(place), entry, index);
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
  policy.touch(entry);
  ForeignHitCounter::add_one(place);
  ForeignHitCounter::hint(place).store(index, std::memory_order_relaxed);
  return true;
}

[[gnu::always_inline]] inline bool ForeignCache::put_hit(const rdm_mr& mr, uint32_t* touched) {
  *touched = PageMemo::kNone;
  CacheEntries& entries = core_.table().policy().entries();
  ForeignHitCounter::Place* const place = ForeignHitCounter::place();
  if (place == nullptr || !entries.has_entered(ForeignHitCounter::index_of(place)) ||
      mr.length == 0) [[unlikely]]
    return false;
  // Mostly what this thread got last, in any domain; then the memo's line is not needed.
  uint32_t index = ForeignHitCounter::hint(place).load(std::memory_order_relaxed);
  if (entries.at(index).begin() != reinterpret_cast<uintptr_t>(mr.base)) {
    index = memo_.find(reinterpret_cast<uintptr_t>(mr.base));
    if (index == PageMemo::kNone) [[unlikely]]
      return false;
  }
  const CacheEntry& entry = entries.at(index);
  if (entry.state.load(std::memory_order_relaxed) != EntryState::kLive || !is_of(entry, mr))
      [[unlikely]]
    return false;
  if (entries.release(ForeignHitCounter::index_of(place), entry, index)) [[likely]]
    return true;
  *touched = index;
  return false;
}

}  // namespace rdmalloc
