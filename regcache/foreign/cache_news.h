// A cache's lock, and how threads wait under it for something to be built or ended, as with a
// condition variable. The lock may be taken inside malloc, and tell() called; nobody waits there.
#pragma once

#include <atomic>
#include <cstdint>

#include "allocator/mutex.h"

namespace rdmalloc {

class CacheNews {
 public:
  CacheNews() = default;
  CacheNews(const CacheNews&) = delete;
  CacheNews& operator=(const CacheNews&) = delete;

  Mutex& mutex() RETURN_CAPABILITY(cache_lock) { return mutex_; }

  // Who waits looks again.
  void tell() REQUIRES(cache_lock);
  // Both unlock. The wait may also end without news.
  void wait(uint64_t ns) REQUIRES(cache_lock);
  void wait() REQUIRES(cache_lock);

  // In the child of a fork: threads that held the lock or waited are gone, and it has no other. So
  // the lock is made anew, and not taken.
  void note_fork_child() NO_THREAD_SAFETY_ANALYSIS;

 private:
  Mutex mutex_{Rank::kForeign};
  std::atomic<uint32_t> news_{0};
  uint32_t waiting_ GUARDED_BY(cache_lock) = 0;  // threads that wait for news_
};

}  // namespace rdmalloc
