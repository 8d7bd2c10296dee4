// What the heap reports about itself: the counters that other processes read, and the peaks of live
// and held bytes.
//
// Runs inside malloc: some stores, now and then under the counters' own lock.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "allocator/limits/budget.h"
#include "allocator/pages/live_bytes.h"
#include "allocator/report/counters.h"

namespace rdmalloc {

class Books {
 public:
  constexpr Books(const Budget& budget, const LiveBytes& live) : budget_(budget), live_(live) {}
  Books(const Books&) = delete;
  Books& operator=(const Books&) = delete;

  // Others may read the counters once `shared_from` bytes are live; 0: never. Not from the start,
  // because most processes are small, and some check which descriptors they have.
  void boot(uint64_t shared_from) { shared_from_ = shared_from; }

  // Something was taken or given back.
  void note_live() { counters_.note_live(live_.all()); }

  // The heap grew; the number of regions it has now.
  void note_growth(size_t regions) REQUIRES(growth_lock);

  // Lets others read the counters before the heap is that large.
  void share() {
    if (shared_from_ != 0) counters_.share();
  }

  // See Counters.
  void begin_phase(const char* name);
  void note_registrations(uint64_t domains, uint64_t registered, uint64_t registered_pinned);

  // The highest value that live bytes were known to have.
  size_t raise_peak_live(size_t live);
  size_t peak_held() const { return page().peak_held.load(std::memory_order_relaxed); }

  // Making regions took that long.
  void note_acquiring(uint64_t ns) { acquire_ns_ += ns; }
  uint64_t acquire_ns() const { return acquire_ns_.load(std::memory_order_relaxed); }

  Counters& counters() { return counters_; }
  const CounterPage& page() const { return counters_.page(); }

 private:
  const Budget& budget_;
  const LiveBytes& live_;
  Counters counters_;
  uint64_t shared_from_ = 0;
  std::atomic<size_t> peak_live_{0};
  std::atomic<uint64_t> acquire_ns_{0};
};

}  // namespace rdmalloc
