#include "regcache/foreign/cache_core.h"

#include <new>

#include "allocator/os/futex.h"
#include "allocator/os/thread.h"

namespace rdmalloc {
namespace {

// How long to sleep between checks for a put: hits wake nobody.
constexpr uint64_t kLookAgainNs = 200'000;

// Waiters are woken; this bounds the wait in case a wake-up is missed.
constexpr uint64_t kLongestWaitNs = 1'000'000'000;

// How long to wait for a backend that asks to come later: forking a large heap can take this long.
constexpr uint64_t kLongestPutOffNs = 5'000'000'000;

constexpr uint64_t kNsPerMs = 1'000'000;

}  // namespace

uint64_t CacheCore::Attempt::waited_ns() {
  const uint64_t now = os::now_ns();
  if (waits_since_ == 0) waits_since_ = now;
  return now - waits_since_;
}

void CacheCore::open_core(uint32_t wait_ms) {
  wait_ms_ = wait_ms;
  open_ = true;
}

void CacheCore::add_idle(CacheEntry* entry) {
  entry->next = idle_;
  idle_ = entry;
}

void CacheCore::unindex(CacheEntry* entry) {
  index_.erase(index_.iterator_to(*entry));
  ++reindexed_;
  note_unindexed(*entry);
}

void CacheCore::doom(CacheEntry* entry) {
  unindex(entry);
  if (policy_.doom(*entry)) {
    add_idle(entry);
  } else {
    doomed_.insert(*entry);
  }
}

bool CacheCore::doom_if_idle(CacheEntry* entry) {
  if (!policy_.doom_if_idle(*entry)) return false;
  unindex(entry);
  add_idle(entry);
  return true;
}

void CacheCore::tell_waiters() {
  add_locked(news_, 1);
  if (waiting_ != 0) os::wake_all(news_);
}

void CacheCore::wait_for_news(uint64_t ns) {
  const uint32_t seen = news_.load(std::memory_order_acquire);
  ++waiting_;
  mutex().unlock();
  os::wait_while_for(news_, seen, ns);
  mutex().lock();
  --waiting_;
}

void CacheCore::wait_for_builder() { wait_for_news(kLongestWaitNs); }

bool CacheCore::wait_for_others(Attempt* attempt) {
  const uint64_t waited = attempt->waited_ns();
  if (ending_ != 0 && waited < kLongestPutOffNs) {
    // Another thread is ending an entry, which makes room.
    wait_for_news(kLongestWaitNs);
    return true;
  }
  if (attempt->is_optional || waited >= wait_ms_ * kNsPerMs) return false;
  wait_for_news(kLookAgainNs);
  return true;
}

// The obstacle may have gone before anyone looks for it.
bool CacheCore::has_ended_since(uint32_t ended, Attempt* attempt) const {
  return ended_ != ended && attempt->waited_ns() < kLongestPutOffNs;
}

int CacheCore::make_unlocked(Attempt* attempt, CacheEntry* entry) {
  for (;;) {
    attempt->why[0] = '\0';
    const uint32_t ended = ended_;
    mutex().unlock();
    const int status = make(*entry, attempt);
    mutex().lock();
    switch (status) {
      case RDM_OUT_OF_BUDGET:
      case RDM_NOT_REGISTERED:
        if (has_ended_since(ended, attempt)) continue;
        if (has_room_made(status, attempt, *entry)) continue;
        if (attempt->why[0] == '\0') {
          (void)fail(status, words_->no_room, attempt->why, sizeof attempt->why);
        }
        return RDM_OUT_OF_BUDGET;
      case RDM_BACKEND_OVERLAPS:
        if (has_ended_since(ended, attempt) || evict_overlapping(*entry)) continue;
        if (wait_for_others(attempt)) continue;
        // If the overlap is not with one of our entries, the backend's message is the better one.
        if (attempt->why[0] == '\0' || overlaps_what_is_used(*entry)) {
          (void)fail(status, words_->overlaps, attempt->why, sizeof attempt->why);
        }
        return RDM_BUSY;
      case RDM_BACKEND_LATER:
        if (attempt->waited_ns() > kLongestPutOffNs) {
          return fail(RDM_SYSTEM, "the backend kept asking to be called later", attempt->why,
                      sizeof attempt->why);
        }
        wait_for_news(kLookAgainNs);
        continue;
      default:
        return status;
    }
  }
}

// Gives up nothing if that could not make enough room; but other threads may still put something.
bool CacheCore::has_room_made(int status, Attempt* attempt, const CacheEntry& entry) {
  if (status == RDM_OUT_OF_BUDGET && !attempt->is_optional) {
    if (!may_reclaim_unlocked(entry)) return wait_for_others(attempt);
    if (reclaim_unlocked(entry)) return true;
  }
  return make_room(attempt, &entry);
}

bool CacheCore::may_reclaim_unlocked(const CacheEntry& entry) {
  mutex().unlock();
  const bool may = may_reclaim(entry);
  mutex().lock();
  return may;
}

CacheCore::Idle CacheCore::count_idle(uint64_t enough_bytes, size_t enough_count) const {
  Idle sum;
  const auto add = [&](const CacheEntry& entry) {
    sum.bytes += entry.end() - entry.begin();
    ++sum.count;
    return sum.bytes < enough_bytes && sum.count < enough_count;
  };
  for (const CacheEntry* entry = idle_; entry != nullptr; entry = entry->next) {
    if (!add(*entry)) return sum;
  }
  for (const CacheEntry& entry : index_) {
    const bool is_live = entry.state.load(std::memory_order_relaxed) == EntryState::kLive;
    if (is_live && policy_.users(entry) == 0 && !add(entry)) break;
  }
  return sum;
}

// Comes after giving up this cache's own idle entries, and before waiting for its users.
bool CacheCore::reclaim_unlocked(const CacheEntry& entry) {
  if (idle_ != nullptr) return false;
  if (evict_one()) return true;
  mutex().unlock();
  const bool reclaimed = reclaim(entry);
  mutex().lock();
  return reclaimed;
}

// The entry is kRemoving and owned by this thread. False: it is left idle for another thread to
// end.
bool CacheCore::end_unlocked(CacheEntry* entry, bool may_wait) {
  ++ending_;
  mutex().unlock();
  const int status = end(*entry, may_wait);
  mutex().lock();
  --ending_;
  const bool is_over = note_ended(entry, status);
  tell_waiters();
  return is_over;
}

bool CacheCore::note_ended(CacheEntry* entry, int status) {
  if (status == RDM_OK) {
    policy_.remove(*entry);
    ++ended_;
  } else if (status == RDM_BACKEND_LATER) {
    add_idle(entry);
  } else {
    entry->next = lost_;
    lost_ = entry;
  }
  return status != RDM_BACKEND_LATER;
}

bool CacheCore::end_all_idle(bool may_wait) {
  CacheEntry* chain = idle_;
  idle_ = nullptr;
  bool ended = false;
  while (chain != nullptr) {
    CacheEntry* const entry = chain;
    chain = entry->next;
    ended = end_unlocked(entry, may_wait) || ended;
  }
  return ended;
}

CacheEntry* CacheCore::take_victim() {
  CacheEntry* const victim = policy_.choose_victim();
  if (victim == nullptr) return nullptr;
  unindex(victim);
  add_locked(evictions_, 1);
  return victim;
}

bool CacheCore::evict_one() {
  CacheEntry* const victim = take_victim();
  return victim != nullptr && end_unlocked(victim, true);
}

bool CacheCore::make_room(Attempt* attempt, const CacheEntry* entry) {
  if (CacheEntry* const idle = idle_) {
    idle_ = idle->next;
    if (end_unlocked(idle, true)) return true;
  }
  if (attempt->is_optional) return entry != nullptr && evict_overlapping(*entry);
  return evict_one() || wait_for_others(attempt);
}

int CacheCore::put_in_use(CacheEntry* entry) {
  if (entry == nullptr) return fail(RDM_INVALID, words_->not_out);
  const bool is_over = policy_.release(policy_.enter(), policy_.index_of(*entry));
  return is_over ? RDM_OK : settle_locked(entry);
}

int CacheCore::settle(CacheEntry* entry) {
  if (policy_.is_settled(*entry)) return RDM_OK;
  os::NoCancel no_cancel;
  Locked hold(mutex());
  return settle_locked(entry);
}

int CacheCore::settle_locked(CacheEntry* entry) {
  if (policy_.restore(*entry)) return fail(RDM_INVALID, words_->put_too_often);
  const bool was_shared = entry->state.load(std::memory_order_relaxed) == EntryState::kTransient;
  if (!policy_.claim(*entry)) return RDM_OK;
  if (was_shared) {
    unindex(entry);
  } else {
    doomed_.erase(doomed_.iterator_to(*entry));
  }
  end_unlocked(entry, true);
  return RDM_OK;
}

// RDM_BUSY: idle entries have been ended, and the cache stays open.
int CacheCore::close_core(uint32_t* users) {
  *users = static_cast<uint32_t>(doomed_.size() + building_.size());
  for (auto next = index_.begin(); next != index_.end();) {
    CacheEntry& entry = *next++;
    *users += doom_if_idle(&entry) ? 0 : 1;
  }
  open_ = *users != 0;
  const bool busy = open_;
  end_all_idle(true);
  if (busy) return RDM_BUSY;
  while (ending_ != 0) {
    wait_for_news(kLongestWaitNs);
    // Entries that could not be ended inside malloc.
    (void)end_all_idle(true);
  }
  while (CacheEntry* const entry = idle_) {
    idle_ = entry->next;
    entry->next = lost_;
    lost_ = entry;
  }
  const int status = lost_ != nullptr ? RDM_SYSTEM : RDM_OK;
  while (CacheEntry* const entry = lost_) {
    lost_ = entry->next;
    policy_.remove(*entry);
  }
  return status;
}

void CacheCore::forget_all() {
  new (&mutex_) Mutex(Rank::kForeign);
  index_.clear();
  ++reindexed_;
  building_.clear();
  doomed_.clear();
  idle_ = nullptr;
  ending_ = 0;
  lost_ = nullptr;
  waiting_ = 0;
  open_ = false;
  policy_.clear();
}

bool CacheCore::validate_core() const {
  if (!policy_.is_open()) return index_.empty();
  size_t count = index_.size() + doomed_.size() + building_.size() + ending_;
  for (const CacheEntry* entry = idle_; entry != nullptr; entry = entry->next) ++count;
  for (const CacheEntry* entry = lost_; entry != nullptr; entry = entry->next) ++count;
  return count == policy_.count() && policy_.validate();
}

}  // namespace rdmalloc
