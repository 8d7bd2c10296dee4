// The observers of regions. They are never removed. Calling them takes no lock.
#pragma once

#include <atomic>
#include <cstddef>

#include "allocator/mutex.h"
#include "allocator/pages/region_observer.h"

namespace rdmalloc {

class Observers {
 public:
  constexpr Observers() = default;
  Observers(const Observers&) = delete;
  Observers& operator=(const Observers&) = delete;

  bool has(const RegionObserver* observer) const REQUIRES(growth_lock) {
    for (size_t i = 0; i < count_; ++i) {
      if (all_[i] == observer) return true;
    }
    return false;
  }

  bool has_room() const REQUIRES(growth_lock) { return count_ < kMost; }

  // After has_room().
  void add(RegionObserver* observer) REQUIRES(growth_lock) {
    const size_t count = count_;
    all_[count] = observer;
    count_.store(count + 1, std::memory_order_release);
  }

  // The locks that tell() needs are its caller's to hold.
  template <typename Tell>
  void for_each(Tell tell) const NO_THREAD_SAFETY_ANALYSIS {
    const size_t count = count_.load(std::memory_order_acquire);
    for (size_t i = 0; i < count; ++i) tell(*all_[i]);
  }

  template <typename Ask>
  bool any_of(Ask ask) const {
    bool any = false;
    for_each([&](RegionObserver& observer) { any = any || ask(observer); });
    return any;
  }

  // What all of them have registered.
  RegistrationCounters registrations() const {
    RegistrationCounters sum;
    for_each([&](RegionObserver& observer) { observer.add_to(&sum); });
    return sum;
  }

 private:
  static constexpr size_t kMost = 8;
  RegionObserver* all_[kMost] = {};
  std::atomic<size_t> count_{0};
};

}  // namespace rdmalloc
