// What ends registrations of foreign memory: their last users, changes, closing.
#include "regcache/cache/foreign_cache.h"

#include <new>

#include "allocator/os/futex.h"
#include "allocator/os/thread.h"
#include "regcache/last_error.h"

namespace rdmalloc {
namespace {

// Somebody wakes who waits; if not, it looks again after that.
constexpr uint64_t kLongestWaitNs = 1'000'000'000;

}  // namespace

void ForeignCache::open(const ForeignSettings& settings, ForeignDevice* device,
                        ForeignCounters* counters) {
  Locked hold(mutex_);
  settings_ = settings;
  device_ = device;
  counters_ = counters;
  if (policy_.is_open()) (void)policy_.open(settings_.limits);
  open_ = true;
}

int ForeignCache::close(uint32_t* users) {
  os::NoCancel no_cancel;
  mutex_.lock();
  *users = 0;
  for (auto next = index_.begin(); next != index_.end();) {
    CacheEntry& entry = *next++;
    if (policy_.doom_if_idle(entry)) {
      unindex(&entry);
      entry.next = idle_;
      idle_ = &entry;
    } else {
      ++*users;
    }
  }
  *users += static_cast<uint32_t>(doomed_.size() + building_.size());
  open_ = *users != 0;
  deregister_all_idle(true);
  while (!open_ && deregistering_ != 0) wait_for_news(kLongestWaitNs);
  const bool lost = !open_ && policy_.count() != 0;
  mutex_.unlock();
  if (*users != 0) return RDM_BUSY;
  return lost ? RDM_SYSTEM : RDM_OK;
}

void ForeignCache::unindex(CacheEntry* entry) {
  index_.erase(index_.iterator_to(*entry));
  changes.count_out(entry->begin(), entry->end());
}

// Of the index; locked.
void ForeignCache::doom(CacheEntry* entry) {
  unindex(entry);
  if (policy_.doom(*entry)) {
    entry->next = idle_;
    idle_ = entry;
  } else {
    doomed_.insert(*entry);
  }
}

void ForeignCache::tell_waiters() {
  news_.fetch_add(1, std::memory_order_release);
  if (waiting_ != 0) os::wake_all(news_);
}

// Called and returns with the lock held, but gives it back meanwhile.
void ForeignCache::wait_for_news(uint64_t ns) {
  const uint32_t seen = news_.load(std::memory_order_acquire);
  ++waiting_;
  mutex_.unlock();
  os::wait_while_for(news_, seen, ns);
  mutex_.lock();
  --waiting_;
}

// The entry is kRemoving and this thread's. Called and returns with the lock held, but gives it
// back meanwhile. `may_wait`: not inside malloc, where monitors may not run either.
void ForeignCache::deregister_unlocked(CacheEntry* entry, bool may_wait) {
  ++deregistering_;
  mutex_.unlock();
  const int status = device_->deregister_foreign(entry->end() - entry->begin(), entry->key());
  if (may_wait) monitor().unwatch(entry->begin(), entry->end() - entry->begin());
  mutex_.lock();
  --deregistering_;
  if (status == RDM_OK) {
    policy_.remove(*entry);
  } else if (!may_wait) {
    // Not on this thread, perhaps.
    entry->next = idle_;
    idle_ = entry;
  }
  // Else it is lost, and stays counted: the device has it still.
  tell_waiters();
}

void ForeignCache::deregister_all_idle(bool may_wait) {
  CacheEntry* chain = idle_;
  idle_ = nullptr;
  while (chain != nullptr) {
    CacheEntry* const entry = chain;
    chain = entry->next;
    deregister_unlocked(entry, may_wait);
  }
}

void ForeignCache::deregister_idle() {
  os::NoCancel no_cancel;
  Locked hold(mutex_);
  deregister_all_idle(true);
}

void ForeignCache::on_change(uintptr_t base, uintptr_t end) {
  Locked hold(mutex_);
  if (!open_) return;
  const Range range{base, end};
  while (CacheEntry* const entry = first_overlapping(range)) {
    counters_->invalidations.fetch_add(1, std::memory_order_relaxed);
    doom(entry);
  }
  for (CacheEntry& entry : building_) {
    if (entry.begin() < end && base < entry.end()) entry.changed = true;
  }
  if (idle_ == nullptr) return;
  if (device_->may_run_in_malloc()) {
    deregister_all_idle(false);
  } else {
    device_->put_off();
  }
}

bool ForeignCache::is_cached(uintptr_t base, uintptr_t end) {
  Locked hold(mutex_);
  const Range range{base, end};
  return open_ && (first_overlapping(range) != nullptr || is_being_built(range));
}

bool ForeignCache::give_up(size_t bytes) {
  Locked hold(mutex_);
  if (!open_) return false;
  const uint64_t before = policy_.bytes();
  while (before - policy_.bytes() < bytes) {
    CacheEntry* const victim = policy_.choose_victim();
    if (victim == nullptr) break;
    unindex(victim);
    counters_->evictions.fetch_add(1, std::memory_order_relaxed);
    deregister_unlocked(victim, true);
  }
  return policy_.bytes() < before;
}

// A registration that is out with this value. One that is doomed comes first, because nobody else
// can find it; locked.
CacheEntry* ForeignCache::find_in_use(const rdm_mr& mr) {
  const auto base = reinterpret_cast<uintptr_t>(mr.base);
  for (auto [at, end] = doomed_.equal_range(base, ByBase()); at != end; ++at) {
    if (is_of(*at, mr)) return &*at;
  }
  const auto found = index_.find(base, ByBase());
  return found != index_.end() && is_of(*found, mr) ? &*found : nullptr;
}

int ForeignCache::put_slowly(const rdm_mr& mr, uint32_t touched) {
  if (touched != PageMemo::kNone) return settle(&policy_.entry(touched));
  os::NoCancel no_cancel;
  mutex_.lock();
  CacheEntry* const entry = open_ ? find_in_use(mr) : nullptr;
  if (entry == nullptr || policy_.users(*entry) <= 0) {
    mutex_.unlock();
    return fail(RDM_INVALID,
                "no such memory region is out: it was put already, or comes from another domain; "
                "pass what rdm_get returned, once");
  }
  const uint32_t index = policy_.index_of(*entry);
  memo_.note(entry->begin(), index);
  const bool is_over = policy_.release(ForeignHitCounter::index(), index);
  mutex_.unlock();
  return is_over ? RDM_OK : settle(entry);
}

// After a release that was perhaps the entry's last, or one too many.
int ForeignCache::settle(CacheEntry* entry) {
  os::NoCancel no_cancel;
  Locked hold(mutex_);
  if (policy_.restore(*entry)) {
    return fail(RDM_INVALID, "this memory region was put more often than it was got");
  }
  const bool was_shared = entry->state.load(std::memory_order_relaxed) == EntryState::kTransient;
  if (!policy_.claim(*entry)) return RDM_OK;
  if (was_shared) {
    unindex(entry);
  } else {
    doomed_.erase(doomed_.iterator_to(*entry));
  }
  deregister_unlocked(entry, true);
  return RDM_OK;
}

// Threads that were building or deregistering are gone with their parent.
void ForeignCache::note_fork_child() {
  new (&mutex_) Mutex(Rank::kForeign);
  index_.clear();
  building_.clear();
  doomed_.clear();
  idle_ = nullptr;
  deregistering_ = 0;
  waiting_ = 0;
  open_ = false;
  policy_.clear();
}

bool ForeignCache::validate() {
  Locked hold(mutex_);
  if (!policy_.is_open()) return index_.empty();
  uintptr_t end = 0;
  size_t count = doomed_.size() + building_.size() + deregistering_;
  for (const CacheEntry& entry : index_) {
    if (entry.begin() < end || entry.end() <= entry.begin()) return false;
    end = entry.end();
    ++count;
  }
  for (const CacheEntry* entry = idle_; entry != nullptr; entry = entry->next) ++count;
  return count == policy_.count() && policy_.validate();
}

}  // namespace rdmalloc
