// Our own threads in somebody else's program.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstddef>

#include "allocator/os/processor.h"

namespace rdmalloc::os {

// Starts a thread that blocks all signals: they belong to the program, whose handlers may call
// malloc. `stack`: bytes; 0 for the program's default, which is also used if `stack` is too small
// for the program's thread-local data. Returns 0 or an errno. Not inside malloc: pthread_create
// allocates.
//
// The thread may run where the thread that starts it may, unless place_threads() said otherwise. In
// a rank that is bound to one processor, that is this processor.
int start_thread(pthread_t* thread, const char* name, size_t stack, void* (*run)(void*),
                 void* context);

// Sets where threads that are started from now on may run, as far as the kernel allows it to this
// process; none: where the thread that starts them may. Also inside malloc; no thread may be
// starting meanwhile.
void place_threads(const Processors& processors);

// While an object lives, the thread cannot be cancelled: a cancelled thread would keep our locks
// and counts forever.
class [[nodiscard]] NoCancel {
 public:
  NoCancel() { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~NoCancel() { pthread_setcancelstate(before_, nullptr); }
  NoCancel(const NoCancel&) = delete;
  NoCancel& operator=(const NoCancel&) = delete;

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

// True when every thread of the program has ended and only threads of start_thread() remain. libc
// counts those too, so it does not end the process. A thread is ours if its name starts as ours do.
bool is_only_ours_left();

// Tells when the main thread ends, so that our threads need not poll is_only_ours_left(). Uses the
// destructor of thread-specific data that a constructor in this file gives to the main thread: it
// runs when the thread ends, but not when the process does.
class MainThreadWatch {
 public:
  constexpr MainThreadWatch() = default;
  MainThreadWatch(const MainThreadWatch&) = delete;
  MainThreadWatch& operator=(const MainThreadWatch&) = delete;

  // From now on the main thread calls note_end(context) as it ends; is_on() is false by then. The
  // watch stays off if the main thread has ended. In children that another thread forked, and where
  // another thread loaded the library, it is off until the main thread calls this.
  void start(void (*note_end)(void* context), void* context);
  bool is_on() const {
    return is_listed_.load(std::memory_order_relaxed) && is_main_watched.load();
  }
  void stop();
  // In the child of a fork, by the thread that is its main thread now.
  void note_fork_child();

 private:
  static void watch_main_thread();
  static void note_main_end(void* main_thread);
  friend struct WatchFromTheStart;

  static constinit std::atomic<bool> is_main_watched;
  std::atomic<bool> is_listed_{false};
  void (*note_end_)(void* context) = nullptr;
  void* context_ = nullptr;
};

}  // namespace rdmalloc::os
