// The process's own counter page (counter_page.h): kept up to date by the heap wherever a sum
// changes, so that a reader from outside needs nobody's help. Until share() it is a page of this
// process's alone.
//
// Runs inside malloc: some stores, under a lock of its own but for note_live(), where the last who
// comes is right soon enough.
#pragma once

#include <cstddef>
#include <cstdint>

#include "allocator/budget.h"
#include "allocator/counter_page.h"
#include "allocator/mutex.h"
#include "allocator/os/shared_page.h"

namespace rdmalloc {

class Counters {
 public:
  constexpr Counters() = default;
  Counters(const Counters&) = delete;
  Counters& operator=(const Counters&) = delete;

  // Lets others find the page, from the first call on. Nothing happens where the kernel or a limit
  // on descriptors refuses.
  void share() EXCLUDES(counters_lock);

  void note_live(uint64_t live) {
    CounterPage& page = *now();
    raise(&page.peak_live, live);
    set(&page.live, live);
    if (PhaseRecord* const in_force = phase()) raise(&in_force->peak_live, live);
  }
  void note_window(uintptr_t first, size_t bytes) EXCLUDES(counters_lock);
  void note_budget(const Budget& budget, size_t regions) EXCLUDES(counters_lock);
  void note_registrations(uint64_t domains, uint64_t registered, uint64_t registered_pinned)
      EXCLUDES(counters_lock);

  // Ends the phase in force and begins the one of this name, again if there was one already. Null:
  // begins none. A longer name than there is room for is cut; phases beyond kMostPhases are one,
  // the last.
  void begin_phase(const char* name) EXCLUDES(counters_lock);

  // Outside malloc: waits for a watcher that is writing, for half a second at most.
  void note_report(ReportState state) EXCLUDES(counters_lock);

  // By which others can be given the page; -1: it is not shared, or the program closed it.
  int descriptor() EXCLUDES(counters_lock);

  // Around fork.
  Mutex& mutex() RETURN_CAPABILITY(counters_lock) { return mutex_; }
  // The child is a process of its own, with its parent's figures and no phases.
  void note_fork_child() REQUIRES(counters_lock);

  // The page of now: another one once it is shared.
  const CounterPage& page() const { return *page_.load(std::memory_order_acquire); }

 private:
  using Word = CounterPage::Word;

  // A raise that another thread's lower one overtakes is made good by the next.
  static void set(Word* word, uint64_t value) { word->store(value, std::memory_order_relaxed); }
  static uint64_t get(const Word& word) { return word.load(std::memory_order_relaxed); }
  static void raise(Word* word, uint64_t value) {
    if (value > get(*word)) set(word, value);
  }

  CounterPage* now() const { return page_.load(std::memory_order_acquire); }
  PhaseRecord* phase() const { return phase_.load(std::memory_order_relaxed); }
  PhaseRecord* phase_named(const char* name) REQUIRES(counters_lock);
  void end_phase() REQUIRES(counters_lock);
  void raise_phase() REQUIRES(counters_lock);
  void copy_from(const CounterPage& page) REQUIRES(counters_lock);
  void publish() REQUIRES(counters_lock);

  CounterPage own_;  // before share(), and where it did not work
  std::atomic<CounterPage*> page_{&own_};
  std::atomic<PhaseRecord*> phase_{nullptr};  // in force
  Mutex mutex_{Rank::kCounters};
  os::SharedPage shared_ GUARDED_BY(counters_lock);
  bool was_shared_ GUARDED_BY(counters_lock) = false;  // or could not be
};

}  // namespace rdmalloc
