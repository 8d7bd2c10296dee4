// Our own locks, and the one place that defines their order. jemalloc's locks come before all of
// them. Debug builds abort if a thread takes them in another order, and clang's analysis rejects a
// function that does (thread_safety.h).
#pragma once

#include <pthread.h>

#include <cstdint>

#include "allocator/thread_safety.h"

namespace rdmalloc {

// Outermost first. kPool: a depot's. kForeign: a cache's, which any call that unmaps memory may
// take.
enum class Rank : uint8_t { kNone, kGrowth, kPool, kCounters, kForeign };

// The same for clang: a name for each rank, not for each Mutex, because most of what a lock guards
// lies outside the object that has the Mutex. That is exact as long as a thread holds one lock of a
// rank, or, with lock_beside(), all of them. The owner of a Mutex hands it out by a function that
// returns it under its name (RETURN_CAPABILITY), and locks it through that function only. Never
// defined.
class CAPABILITY("lock") LockName {};
extern LockName growth_lock;
extern LockName depot_lock ACQUIRED_AFTER(growth_lock);
extern LockName counters_lock ACQUIRED_AFTER(depot_lock);
extern LockName cache_lock ACQUIRED_AFTER(counters_lock);

#ifdef NDEBUG
inline void assert_rank_above(Rank) {}
inline Rank set_rank(Rank rank) { return rank; }
inline void assert_no_rank() {}
#else
// In mutex.cpp: the rank this thread holds now.
void assert_rank_above(Rank rank);
Rank set_rank(Rank rank);
// Aborts if this thread holds any of these locks: it would be inside malloc.
void assert_no_rank();
#endif

// A pthread mutex: needs no construction at run time and no malloc, and works before libc has
// started threads. The forking thread holds it over fork, so the child can simply release it.
class CAPABILITY("mutex") Mutex {
 public:
  explicit constexpr Mutex(Rank rank) : rank_(rank) {}
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void lock() ACQUIRE() {
    assert_rank_above(rank_);
    if (pthread_mutex_trylock(&mutex_) != 0) [[unlikely]] {
      wait();
      __atomic_store_n(&waits_, waits_ + 1, __ATOMIC_RELAXED);
    }
    outer_ = set_rank(rank_);
  }
  // Takes one more lock of the rank that this thread holds. A thread that takes several takes all,
  // always in the same order, and releases them in the opposite one.
  void lock_beside() ACQUIRE() {
    pthread_mutex_lock(&mutex_);
    outer_ = set_rank(rank_);
  }
  void unlock() RELEASE() {
    set_rank(outer_);
    pthread_mutex_unlock(&mutex_);
  }

  // How often a thread found it taken. May be outdated when the caller reads it.
  uint64_t waits() const { return __atomic_load_n(&waits_, __ATOMIC_RELAXED); }

 private:
  // Looks for some microseconds, and then yields a few times, before it sleeps: most locks are held
  // for less (bench/README.md, "Large blocks, untouched").
  void wait();

  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
  const Rank rank_;
  Rank outer_ = Rank::kNone;
  uint64_t waits_ = 0;  // written by who has it
};

class SCOPED_CAPABILITY Locked {
 public:
  explicit Locked(Mutex& mutex) ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~Locked() RELEASE() { mutex_.unlock(); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  Mutex& mutex_;
};

}  // namespace rdmalloc
