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
#include "allocator/report/phases.h"

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
    raise_word(&page.peak_live, live);
    set_word(&page.live, live);
    phases_.raise_live(live);
  }
  void note_window(uintptr_t first, size_t bytes) EXCLUDES(counters_lock);
  void note_budget(const Budget& budget, size_t regions) EXCLUDES(counters_lock);
  void note_registrations(uint64_t domains, uint64_t registered, uint64_t registered_pinned)
      EXCLUDES(counters_lock);

  // As Phases::begin().
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
  CounterPage* now() const { return page_.load(std::memory_order_acquire); }
  void copy_from(const CounterPage& page) REQUIRES(counters_lock);
  void publish() REQUIRES(counters_lock);

  CounterPage own_;  // before share(), and where it did not work
  std::atomic<CounterPage*> page_{&own_};
  Phases phases_;
  Mutex mutex_{Rank::kCounters};
  os::SharedPage shared_ GUARDED_BY(counters_lock);
  bool was_shared_ GUARDED_BY(counters_lock) = false;  // or could not be
};

}  // namespace rdmalloc
