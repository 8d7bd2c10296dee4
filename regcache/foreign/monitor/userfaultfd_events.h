// What the kernel reports to the userfaultfd monitor, on its way to `changes`: one thread reads it,
// another tells it. `changes` is held up from before the read until everything is told.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "regcache/foreign/monitor/userfaultfd_drops.h"
#include "regcache/foreign/monitor/userfaultfd_kernel.h"
#include "regcache/foreign/monitor/userfaultfd_requests.h"
#include "regcache/foreign/monitor/userfaultfd_watched.h"

namespace rdmalloc {

class UserfaultfdEvents {
 public:
  constexpr UserfaultfdEvents(KernelUserfaultfd& kernel, UserfaultfdRequests& requests,
                              UserfaultfdWatched& watched)
      : kernel_(kernel), requests_(requests), watched_(watched) {}
  UserfaultfdEvents(const UserfaultfdEvents&) = delete;
  UserfaultfdEvents& operator=(const UserfaultfdEvents&) = delete;

  // False: there is no thread. The reader is to be started by a thread that has the descriptor, the
  // teller by one that has the program's.
  bool start_reader();
  bool start_teller();

  // Read since the start.
  uint32_t count() const { return events_.load(std::memory_order_relaxed); }

  // In the child of a fork, inside malloc: the threads exist only in the parent.
  static void note_fork_child();

 private:
  static constexpr size_t kMostEvents = 16;

  void read();
  void tell();
  void tell_one(const KernelEvent& event);
  void wake_teller();
  void wait_for_news(uint32_t seen);

  KernelUserfaultfd& kernel_;
  UserfaultfdRequests& requests_;
  UserfaultfdWatched& watched_;
  pthread_t reader_{};
  pthread_t teller_{};
  std::atomic<uint32_t> events_{0};

  // What has been read and not reported yet. It belongs to the reader while empty, otherwise to the
  // teller.
  KernelEvent batch_[kMostEvents];
  std::atomic<uint32_t> batch_count_{0};
  std::atomic<uint32_t> news_{0};  // changes when there is something for the teller
  UserfaultfdDrops drops_;         // the teller's
};

}  // namespace rdmalloc
