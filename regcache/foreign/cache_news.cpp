#include "regcache/foreign/cache_news.h"

#include <new>

#include "allocator/os/futex.h"
#include "regcache/foreign/cache_account.h"

namespace rdmalloc {

void CacheNews::tell() {
  add_locked(news_, 1);
  if (waiting_ != 0) os::wake_all(news_);
}

void CacheNews::wait(uint64_t ns) {
  const uint32_t seen = news_.load(std::memory_order_acquire);
  ++waiting_;
  mutex().unlock();
  os::wait_while_for(news_, seen, ns);
  mutex().lock();
  --waiting_;
}

// Waiters are woken; this bounds the wait in case a wake-up is missed.
void CacheNews::wait() {
  constexpr uint64_t kLongestNs = 1'000'000'000;
  wait(kLongestNs);
}

void CacheNews::note_fork_child() {
  new (&mutex_) Mutex(Rank::kForeign);
  waiting_ = 0;
}

}  // namespace rdmalloc
