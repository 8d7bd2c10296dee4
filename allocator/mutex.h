// Our own locks. Order, outermost first: jemalloc's locks, then Rank::kGrowth, then Rank::kPool,
// then Rank::kCounters, then Rank::kForeign, which any call that unmaps memory may take. Debug
// builds abort when a thread takes them the other way round.
#pragma once

#include <pthread.h>

#include <cstdint>

namespace rdmalloc {

enum class Rank : uint8_t { kNone, kGrowth, kPool, kCounters, kForeign };

#ifdef NDEBUG
inline void assert_rank_above(Rank) {}
inline Rank set_rank(Rank rank) { return rank; }
inline void assert_no_rank() {}
#else
// In mutex.cpp: the rank this thread holds now.
void assert_rank_above(Rank rank);
Rank set_rank(Rank rank);
// Aborts when this thread holds any of these locks: it is inside malloc.
void assert_no_rank();
#endif

// A pthread mutex: needs no construction at run time, no malloc, and works before libc has started
// threads. Held over fork by the forking thread, so the child can simply release it.
class Mutex {
 public:
  explicit constexpr Mutex(Rank rank) : rank_(rank) {}
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void lock() {
    assert_rank_above(rank_);
    pthread_mutex_lock(&mutex_);
    outer_ = set_rank(rank_);
  }
  // One more of the rank that this thread holds. Who takes several takes all, always in the same
  // order, and lets them go in the opposite one.
  void lock_beside() {
    pthread_mutex_lock(&mutex_);
    outer_ = set_rank(rank_);
  }
  void unlock() {
    set_rank(outer_);
    pthread_mutex_unlock(&mutex_);
  }

 private:
  // Spins before it sleeps: most are held for less time than it takes to fall asleep.
  pthread_mutex_t mutex_ = PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP;
  const Rank rank_;
  Rank outer_ = Rank::kNone;
};

class Locked {
 public:
  explicit Locked(Mutex& mutex) : mutex_(mutex) { mutex_.lock(); }
  ~Locked() { mutex_.unlock(); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  Mutex& mutex_;
};

}  // namespace rdmalloc
