// The userfaultfd monitor: the kernel reports changes, whoever makes them and however, and blocks a
// thread that unmaps until the event is read.
//
// The descriptor lives in a descriptor table of its own, so that the program cannot close it and no
// child inherits it. Two threads of ours have that table: the keeper makes the calls about ranges,
// one after the other, and the reader reads events. A third one, the teller, reports them to
// `changes`: it has the program's descriptors, because devices are among these. `changes` is held
// up from before the read, which lets the threads that made the changes continue, until everything
// is reported. So a hit finds the registration gone, or looks again.
//
// The kernel frees the addresses before it reports. Another thread may map there at once, and must
// not find the old registration. So the interposed calls that map memory wait (Changes::settle)
// until the kernel says that no change is in progress, if they mapped where something is
// registered. One hole remains: a thread that maps by a system call past every interposed function
// (as dlopen does, inside libc), at an address that another thread is freeing, also by a call past
// them, and that gets the address before that call returns.
//
// Dropping pages is reported before it happens. If the call does not come through the interposed
// functions, registering the range again before the drop would keep what is going to be dropped: so
// for a while nothing there is kept. Not reported at all: shmdt(), remap_file_pages() and guard
// pages, which the interposed functions see; and truncated or punched files, which nothing sees.
//
// The watched part of a mapping is a mapping of its own to the kernel, which refuses to move
// several at a time: mremap fails with EFAULT if it cannot merge them again. The interposed mremap
// releases the range first; after that the failure is rare (once in some ten thousand random
// calls).
//
// These threads must never unmap what is watched: they would wait for themselves.
#pragma once

#include <pthread.h>

#include <atomic>
#include <new>

#include "regcache/foreign/monitor/changes.h"
#include "regcache/foreign/monitor/monitor.h"
#include "regcache/foreign/monitor/userfaultfd_kernel.h"

namespace rdmalloc {

class UserfaultfdMonitor final : public Monitor, public LateMonitor {
 public:
  // Null, or a sentence that says why not.
  const char* start();

  const char* name() const noexcept override { return "userfaultfd"; }
  const char* why() const noexcept override;
  bool watch(uintptr_t base, size_t length) noexcept override;
  void unwatch(uintptr_t base, size_t length) noexcept override;
  void note_fork_child() noexcept override;

  void wait_until_told() noexcept override;
  void settle() noexcept override;
  void let_go(uintptr_t base, size_t length) noexcept override;

  // For tests: events read since the start.
  uint32_t events() const { return events_.load(std::memory_order_relaxed); }

 private:
  struct Answer {
    std::atomic<uint32_t> is_there{0};
    int error = 0;
  };
  struct Request {
    enum Kind : uint8_t { kWatch, kUnwatch, kLetGo };
    Kind kind = kWatch;
    uintptr_t base = 0;
    size_t length = 0;
    Answer* answer = nullptr;  // null: nobody waits for it
  };
  // A drop of pages that was reported and may not have happened yet.
  struct Dropping {
    uint64_t until = 0;  // 0: free
    uintptr_t base = 0;
    uintptr_t end = 0;
    alignas(Change) unsigned char storage[sizeof(Change)] = {};

    Change* change() { return std::launder(reinterpret_cast<Change*>(storage)); }
  };
  static constexpr size_t kMostRequests = 256;
  static constexpr size_t kEverBits = 1 << 16;
  static constexpr size_t kMostDroppings = 16;
  static constexpr size_t kMostEvents = 16;

  template <void (UserfaultfdMonitor::*run)()>
  int start_thread(pthread_t* thread, const char* thread_name);

  // The keeper.
  void keep();
  bool begin();
  void answer_settlers();
  bool take(Request* request);
  void serve(const Request& request);
  int watch_now(uintptr_t base, size_t length);

  // The reader.
  void read_events();

  // The teller.
  void tell_events();
  void wait_for_news(uint32_t seen);
  void tell(const KernelEvent& event);
  void expect_drop(const KernelEvent& event);
  void end_drops();

  void note_watched(uintptr_t base, size_t length);
  bool was_watched(uintptr_t base, size_t length) const;
  bool put(const Request& request);
  int ask(Request::Kind kind, uintptr_t base, size_t length);
  void wake_keeper();
  void wake_teller();

  KernelUserfaultfd kernel_;  // the threads'
  pthread_t keeper_{};
  pthread_t reader_{};
  pthread_t teller_{};
  const char* refusal_ = nullptr;
  Answer started_;

  std::atomic<uint32_t> work_{0};  // changes when there is something for the keeper
  std::atomic<uint32_t> settles_asked_{0};
  std::atomic<uint32_t> settles_done_{0};
  std::atomic<uint32_t> events_{0};
  std::atomic<int> watched_{0};  // ranges, about
  // Where anything was ever watched, in units of 64 KiB.
  std::atomic<uint64_t> ever_watched_[kEverBits / 64] = {};

  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;  // guards what follows
  Request requests_[kMostRequests];
  size_t first_ = 0;
  size_t count_ = 0;

  // What has been read and not reported yet. It belongs to the reader while empty, otherwise to the
  // teller.
  KernelEvent batch_[kMostEvents];
  std::atomic<uint32_t> batch_count_{0};
  std::atomic<uint32_t> news_{0};  // changes when there is something for the teller

  // The teller's.
  Dropping droppings_[kMostDroppings] = {};
  size_t drops_ = 0;
};

}  // namespace rdmalloc
