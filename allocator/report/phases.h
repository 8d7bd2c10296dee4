// The phases of the program (rdm_phase) on the counter page, and which of them is in force.
//
// Runs inside malloc.
#pragma once

#include <atomic>
#include <cstdint>

#include "allocator/mutex.h"
#include "allocator/report/counter_page.h"

namespace rdmalloc {

class Phases {
 public:
  constexpr Phases() = default;
  Phases(const Phases&) = delete;
  Phases& operator=(const Phases&) = delete;

  // Ends the phase in force and enters the phase of this name, new or not. Null: enters none. A
  // name that is too long is cut; all phases beyond kMostPhases count as the last one.
  void begin(CounterPage* page, const char* name) REQUIRES(counters_lock);

  // Raises the peaks of the phase in force to the page's counters. raise_live(): any thread.
  void raise(const CounterPage& page) REQUIRES(counters_lock);
  void raise_live(uint64_t live) {
    if (PhaseRecord* const phase = in_force()) raise_word(&phase->peak_live, live);
  }

  // From now on none is in force; clear(): and the page has none.
  void leave(CounterPage* page) REQUIRES(counters_lock);
  void clear(CounterPage* page) REQUIRES(counters_lock);

 private:
  PhaseRecord* in_force() const { return in_force_.load(std::memory_order_relaxed); }
  void end(CounterPage* page) REQUIRES(counters_lock);
  static PhaseRecord* named(CounterPage* page, const char* name);

  std::atomic<PhaseRecord*> in_force_{nullptr};
};

}  // namespace rdmalloc
