// What brings registrations of foreign memory into being: a get that found none at first sight.
#include "allocator/os/clock.h"
#include "allocator/os/memory.h"
#include "allocator/os/thread.h"
#include "regcache/cache/foreign_cache.h"
#include "regcache/last_error.h"

namespace rdmalloc {
namespace {

// How long to sleep before looking again whether something was put: hits do not wake anybody.
constexpr uint64_t kLookAgainNs = 200'000;

// A backend that asks to come later: a fork of a large heap takes that long.
constexpr uint64_t kLongestPutOffNs = 5'000'000'000;

constexpr uint64_t kNsPerMs = 1'000'000;

}  // namespace

// What a get is about, from its first look to its last.
struct ForeignCache::Asked {
  uintptr_t at = 0;
  size_t length = 0;
  Range wanted{0, 0};
  uint64_t started = os::now_ns();
  bool may_widen = true;
  char why[kLongestError] = {};
};

bool ForeignCache::start() {
  Locked hold(mutex_);
  return memo_.is_open() || (policy_.open(settings_.limits) && memo_.open());
}

int ForeignCache::check(Asked* asked) const {
  if (asked->length == 0) return fail(RDM_INVALID, "no bytes are asked for");
  const size_t unit = device_->alignment();
  if (asked->length > UINTPTR_MAX - unit - asked->at) {
    return fail(RDM_INVALID, "the range wraps around the end of the address space");
  }
  asked->wanted.base = os::align_down(asked->at, unit);
  asked->wanted.end = os::align_up(asked->at + asked->length, unit);
  if (asked->wanted.length() > device_->max_length()) {
    return fail(RDM_UNSUPPORTED,
                "longer than the device's largest memory region: send it in pieces "
                "(rdm_pieces_begin)");
  }
  if (asked->wanted.length() > settings_.limits.bytes) {
    return fail(RDM_OUT_OF_BUDGET,
                "longer than all that may be registered of foreign memory: raise foreign_bytes or "
                "RDMALLOC_FOREIGN_BYTES, or send it in pieces (rdm_pieces_begin)");
  }
  return RDM_OK;
}

int ForeignCache::get_slowly(const void* address, size_t length, rdm_mr* out, uint32_t touched) {
  os::NoCancel no_cancel;
  // A reference to what is live no more.
  if (touched != PageMemo::kNone && !policy_.release(ForeignHitCounter::index(), touched)) {
    (void)settle(&policy_.entry(touched));
  }
  (void)ForeignHitCounter::index();
  changes.wait_until_told();
  if (!start()) return fail(RDM_SYSTEM, "no memory for the books of foreign memory");
  Asked asked;
  asked.at = reinterpret_cast<uintptr_t>(address);
  asked.length = length;
  if (const int status = check(&asked); status != RDM_OK) return status;
  mutex_.lock();
  const int status = find_or_build(&asked, out);
  mutex_.unlock();
  return status;
}

// Called and returns with the lock held, as everything here that waits or calls the device; each
// gives it back meanwhile, so that the caller has to look again.
int ForeignCache::find_or_build(Asked* asked, rdm_mr* out) {
  for (;;) {
    if (!open_) return fail(RDM_INVALID, "the domain is closed");
    if (CacheEntry* const entry = find(asked->at, asked->at + asked->length)) {
      policy_.reference_locked(*entry);
      fill(*entry, out);
      memo_.note(asked->at, policy_.index_of(*entry));
      memo_.note(entry->begin(), policy_.index_of(*entry));
      ForeignHitCounter::count();
      return RDM_OK;
    }
    const Range range = widened(*asked);
    if (is_being_built(range)) {
      wait_for_news(kLongestPutOffNs);
    } else if (CacheEntry* const entry = policy_.admit(range.length())) {
      const int status = build(asked, range, entry, out);
      if (status == RDM_OK) return status;
      if (range.length() == asked->wanted.length()) return fail(status, asked->why);
      asked->may_widen = false;
    } else if (range.length() != asked->wanted.length()) {
      asked->may_widen = false;
    } else if (!make_room(*asked)) {
      return fail(RDM_OUT_OF_BUDGET,
                  "all foreign memory that may be registered is in use: put some, raise "
                  "foreign_bytes, foreign_count or RLIMIT_MEMLOCK, or set foreign_wait_ms");
    }
  }
}

CacheEntry* ForeignCache::find(uintptr_t at, uintptr_t end) {
  auto after = index_.upper_bound(at, ByBase());
  if (after == index_.begin()) return nullptr;
  CacheEntry& entry = *--after;
  return entry.end() >= end && entry.end() > at ? &entry : nullptr;
}

CacheEntry* ForeignCache::first_overlapping(const Range& range) {
  auto at = index_.upper_bound(range.base, ByBase());
  if (at != index_.begin()) {
    auto before = at;
    if ((--before)->end() > range.base) at = before;
  }
  return at != index_.end() && at->begin() < range.end ? &*at : nullptr;
}

bool ForeignCache::is_being_built(const Range& range) const {
  for (const CacheEntry& entry : building_) {
    if (entry.begin() < range.end && range.base < entry.end()) return true;
  }
  return false;
}

// The wanted range and all that is kept and overlaps it, when that can be one registration.
ForeignCache::Range ForeignCache::widened(const Asked& asked) {
  Range range = asked.wanted;
  if (!asked.may_widen || !settings_.limits.leave_pinned) return range;
  if (const CacheEntry* const first = first_overlapping(range)) {
    if (first->begin() < range.base) range.base = first->begin();
  }
  const auto after = index_.lower_bound(range.end, ByBase());
  if (after != index_.begin()) {
    auto last = after;
    if ((--last)->end() > range.end) range.end = last->end();
  }
  const bool fits =
      range.length() <= device_->max_length() && range.length() <= settings_.limits.bytes;
  return fits ? range : asked.wanted;
}

int ForeignCache::build(Asked* asked, const Range& range, CacheEntry* entry, rdm_mr* out) {
  entry->base.store(range.base, std::memory_order_relaxed);
  entry->length.store(range.length(), std::memory_order_relaxed);
  building_.insert(*entry);
  changes.count_in(range.base, range.end);
  entry->changed = changes.is_announced(range.base, range.end);
  counters_->misses.fetch_add(1, std::memory_order_relaxed);
  mutex_.unlock();
  const bool is_watched = monitor().watch(range.base, range.length());
  mutex_.lock();
  rdm_backend_key key{};
  const int status = register_range(asked, range, &key);
  building_.erase(building_.iterator_to(*entry));
  if (status == RDM_OK) {
    entry->set_key(key);
    publish(range, entry, is_watched);
    fill(*entry, out);
    memo_.note(asked->at, policy_.index_of(*entry));
    memo_.note(entry->begin(), policy_.index_of(*entry));
    tell_waiters();
    // What it replaces, if anything.
    deregister_all_idle(true);
    return status;
  }
  changes.count_out(range.base, range.end);
  policy_.remove(*entry);
  tell_waiters();
  if (is_watched) {
    mutex_.unlock();
    monitor().unwatch(range.base, range.length());
    mutex_.lock();
  }
  return status;
}

int ForeignCache::register_range(Asked* asked, const Range& range, rdm_backend_key* key) {
  for (;;) {
    asked->why[0] = '\0';
    mutex_.unlock();
    const int status =
        device_->register_foreign(range.base, range.length(), key, asked->why, sizeof asked->why);
    mutex_.lock();
    switch (status) {
      case RDM_OUT_OF_BUDGET:
      case RDM_NOT_REGISTERED:
        if (make_room(*asked)) continue;
        return RDM_OUT_OF_BUDGET;
      case RDM_BACKEND_OVERLAPS:
        if (evict_overlapping(range) || wait_for_others(*asked)) continue;
        return rdmalloc::fail(RDM_BUSY,
                              "some of it is registered with this device already, which registers "
                              "memory once only, and is in use: put that first",
                              asked->why, sizeof asked->why);
      case RDM_BACKEND_LATER:
        if (os::now_ns() - asked->started > kLongestPutOffNs) return RDM_SYSTEM;
        wait_for_news(kLookAgainNs);
        continue;
      default:
        return status;
    }
  }
}

// Registered: to be found by others if changes of it will be told, and none was made meanwhile.
void ForeignCache::publish(const Range& range, CacheEntry* entry, bool is_watched) {
  EntryState state = settings_.limits.leave_pinned ? EntryState::kLive : EntryState::kTransient;
  if (!is_watched || entry->changed) state = EntryState::kDoomed;
  while (CacheEntry* const other = first_overlapping(range)) {
    const bool covered = range.base <= other->begin() && other->end() <= range.end;
    if (state != EntryState::kLive || !covered) {
      state = EntryState::kDoomed;
      break;
    }
    doom(other);
  }
  if (state == EntryState::kDoomed) {
    changes.count_out(range.base, range.end);
    doomed_.insert(*entry);
  } else {
    index_.insert(*entry);
  }
  policy_.publish(*entry, state);
}

// True: something changed, look again.
bool ForeignCache::make_room(const Asked& asked) {
  if (CacheEntry* const idle = idle_) {
    idle_ = idle->next;
    deregister_unlocked(idle, true);
    return true;
  }
  if (CacheEntry* const victim = policy_.choose_victim()) {
    unindex(victim);
    counters_->evictions.fetch_add(1, std::memory_order_relaxed);
    deregister_unlocked(victim, true);
    return true;
  }
  return wait_for_others(asked);
}

bool ForeignCache::wait_for_others(const Asked& asked) {
  if (os::now_ns() - asked.started >= settings_.wait_ms * kNsPerMs) return false;
  wait_for_news(kLookAgainNs);
  return true;
}

bool ForeignCache::evict_overlapping(const Range& range) {
  if (idle_ != nullptr) {
    deregister_all_idle(true);
    return true;
  }
  bool evicted = false;
  CacheEntry* const first = first_overlapping(range);
  if (first == nullptr) return false;
  for (auto at = index_.iterator_to(*first); at != index_.end() && at->begin() < range.end;) {
    CacheEntry& entry = *at++;
    if (!policy_.doom_if_idle(entry)) continue;
    unindex(&entry);
    counters_->evictions.fetch_add(1, std::memory_order_relaxed);
    entry.next = idle_;
    idle_ = &entry;
    evicted = true;
  }
  deregister_all_idle(true);
  return evicted;
}

}  // namespace rdmalloc
