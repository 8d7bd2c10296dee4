// The process's own counter page (counter_page.h). The heap updates it wherever a sum changes, so
// that a reader from outside needs no help. Until share() the page is private to this process.
//
// Runs inside malloc: some stores, under their own lock, except in note_live(), where it is
// enough that the last caller's value stays.
#pragma once

#include <cstddef>
#include <cstdint>

#include "allocator/limits/budget.h"
#include "allocator/mutex.h"
#include "allocator/os/shared_page.h"
#include "allocator/report/counter_page.h"

namespace rdmalloc {

class Counters {
 public:
  constexpr Counters() = default;
  Counters(const Counters&) = delete;
  Counters& operator=(const Counters&) = delete;

  // Makes the page visible to others, at the first call. Does nothing if the kernel or a limit on
  // descriptors refuses.
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

  // Ends the phase in force and enters the phase of this name, new or not. Null: enters none. A
  // name that is too long is cut; all phases beyond kMostPhases count as the last one.
  void begin_phase(const char* name) EXCLUDES(counters_lock);

  // Outside malloc: waits at most half a second for a watcher that is writing.
  void note_report(ReportState state) EXCLUDES(counters_lock);

  // The descriptor of the page; -1: it is not shared, or the program closed it.
  int descriptor() EXCLUDES(counters_lock);

  // Around fork.
  Mutex& mutex() RETURN_CAPABILITY(counters_lock) { return mutex_; }
  // The child is a separate process; it starts with its parent's figures and no phases.
  void note_fork_child() REQUIRES(counters_lock);

  // The current page: another one once it is shared.
  const CounterPage& page() const { return *page_.load(std::memory_order_acquire); }

 private:
  using Word = CounterPage::Word;

  // If another thread's lower value overtakes a raise, the next raise corrects it.
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
