// The free pages of one NUMA node and one use, under a lock of their own, which is held for some
// steps in memory and never across a system call.
//
// Spare pages are those behind a block that grows by moving. They wait for its next growth: only
// take_at() takes them, until they are released.
//
// Runs inside malloc. fork() takes every depot's lock, so a child finds them in order.
#pragma once

#include <cstddef>
#include <cstdint>

#include "allocator/mutex.h"
#include "allocator/pages/free_pages.h"
#include "allocator/pages/live_bytes.h"
#include "allocator/pages/region_table.h"

namespace rdmalloc {

// What was taken from a depot: the first `dirty` bytes were handed out before, the rest is zero.
struct Taken {
  void* address = nullptr;
  size_t dirty = 0;
  explicit operator bool() const { return address != nullptr; }
};

class Depot {
 public:
  constexpr Depot() = default;
  Depot(const Depot&) = delete;
  Depot& operator=(const Depot&) = delete;

  // Once, before there are threads.
  void set_order(RunTree::Order order) NO_THREAD_SAFETY_ANALYSIS { free_.set_order(order); }

  // Says which part of a range was never used, and marks it as used. Under the lock, or while
  // nobody else knows of the region.
  static Taken hand_out(Region* region, void* address, size_t size);

  // What is taken is added to `live`, and what is given back is subtracted, under the lock: a
  // thread that holds all locks finds the sums right, and so does a child of fork.
  using Sum = LiveBytes::Sum;
  Taken take(const RegionTable& regions, size_t size, size_t alignment, Sum* live)
      EXCLUDES(depot_lock);
  // What was spare until then is subtracted from `spare`, here and below.
  Taken take_at(Region* region, void* address, size_t size, Sum* live, Sum* spare)
      EXCLUDES(depot_lock);
  // For gathering: as FreePages::take_largest().
  void* take_largest(size_t least, size_t most, size_t* size) EXCLUDES(depot_lock);
  Status give(void* address, size_t size, Sum* live) EXCLUDES(depot_lock);
  // give(), and take() from what is free then, in one step: `taken` is empty if give() failed.
  Status exchange(void* given, size_t given_size, const RegionTable& regions, size_t size,
                  size_t alignment, Sum* live, Taken* taken) EXCLUDES(depot_lock);
  // Returns what take_largest() gave.
  Status give_back(void* address, size_t size) EXCLUDES(depot_lock) {
    return give(address, size, nullptr);
  }

  bool has(size_t size, size_t alignment) EXCLUDES(depot_lock);
  bool prepare() EXCLUDES(depot_lock);
  // Adds a region's pages except the first `taken` bytes, of which the next `kept` bytes are spare,
  // if there is memory to record them. After prepare().
  void add(const Region& region, size_t taken, size_t kept, Sum* spare) EXCLUDES(depot_lock);
  // Finds runs of spare pages for which is_wanted(address) is true: so many at most.
  template <typename Pred>
  size_t find_spare(Pred is_wanted, uintptr_t* found, size_t most) EXCLUDES(depot_lock) {
    if (spare_bytes() == 0) return 0;
    Locked hold(mutex());
    size_t count = 0;
    spare_.for_each([&](void* run, size_t) {
      const auto address = reinterpret_cast<uintptr_t>(run);
      if (count < most && is_wanted(address)) found[count++] = address;
    });
    return count;
  }
  // Takes the run of them that starts at the address. Null: none does.
  void* take_spare_at(uintptr_t address, size_t* size, Sum* spare) EXCLUDES(depot_lock);
  // Forgets what is free or spare, and returns how much it was.
  size_t clear(Sum* spare) EXCLUDES(depot_lock);

  // May be outdated when the caller reads it; exact under fork's or a test's locks.
  size_t free_bytes() const { return __atomic_load_n(&free_bytes_, __ATOMIC_RELAXED); }
  size_t spare_bytes() const { return __atomic_load_n(&spare_bytes_, __ATOMIC_RELAXED); }
  // The longest run, in bytes: the same. Who wants a longer one need not take the lock.
  size_t largest() const { return __atomic_load_n(&largest_, __ATOMIC_RELAXED); }

  // How often a thread had to wait for another one here: the same.
  uint64_t waits() const { return mutex_.waits(); }

  // Beside the other depots', for fork and for tests.
  void lock() ACQUIRE(depot_lock) { mutex().lock_beside(); }
  void unlock() RELEASE(depot_lock) { mutex().unlock(); }
  const FreePages& free() const REQUIRES(depot_lock) { return free_; }
  const FreePages& spare() const REQUIRES(depot_lock) { return spare_; }

 private:
  Mutex& mutex() RETURN_CAPABILITY(depot_lock) { return mutex_; }
  Taken take_locked(const RegionTable& regions, size_t size, size_t alignment, Sum* live)
      REQUIRES(depot_lock);
  Status give_locked(void* address, size_t size, Sum* live) REQUIRES(depot_lock);
  void note_taken(size_t size, Sum* spare) REQUIRES(depot_lock) {
    spare->fetch_sub(size, std::memory_order_relaxed);
    note();
  }
  void note() REQUIRES(depot_lock) {
    __atomic_store_n(&free_bytes_, free_.free_bytes(), __ATOMIC_RELAXED);
    __atomic_store_n(&spare_bytes_, spare_.free_bytes(), __ATOMIC_RELAXED);
    __atomic_store_n(&largest_, free_.largest(), __ATOMIC_RELAXED);
  }

  Mutex mutex_{Rank::kPool};
  FreePages free_ GUARDED_BY(depot_lock);
  FreePages spare_ GUARDED_BY(depot_lock);
  size_t free_bytes_ = 0;  // of free_, to be read without the lock, as the next two
  size_t largest_ = 0;
  size_t spare_bytes_ = 0;
};

}  // namespace rdmalloc
