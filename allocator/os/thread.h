// Our own threads in somebody else's program.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstddef>

#include "allocator/os/processor.h"

namespace rdmalloc::os {

// Starts a thread that blocks all signals: they are the program's, and its handlers may malloc.
// `stack`: bytes, 0 for the program's default, which is also taken where so few are not enough for
// its thread-local data. 0, or an errno. Not inside malloc: pthread_create allocates.
//
// It runs where the thread that starts it may, which of a rank that is bound to one processor is
// that one, unless place_threads() said otherwise.
int start_thread(pthread_t* thread, const char* name, size_t stack, void* (*run)(void*),
                 void* context);

// Where threads that are started from now on may run, as far as the kernel allows it to this
// process; none: where the thread that starts them may. Inside malloc too; no thread is being
// started meanwhile.
void place_threads(const Processors& processors);

// While an object lives, the thread cannot be cancelled: a cancelled thread would keep our locks
// and counts for ever.
class [[nodiscard]] NoCancel {
 public:
  NoCancel() { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~NoCancel() { pthread_setcancelstate(before_, nullptr); }
  NoCancel(const NoCancel&) = delete;
  NoCancel& operator=(const NoCancel&) = delete;

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

// True when every thread of the program has ended, and only such as start_thread() made live on.
// Then libc, which counts those, does not end the process. A thread of ours is one whose name
// starts as ours do.
bool is_only_ours_left();

// Tells when the main thread ends, so that a thread of ours need not look by time for the moment
// when is_only_ours_left(). By the destructor of a thread's data, which a constructor of this file
// gives to the main thread: it runs when the thread ends, but not when the process does.
class MainThreadWatch {
 public:
  constexpr MainThreadWatch() = default;
  MainThreadWatch(const MainThreadWatch&) = delete;
  MainThreadWatch& operator=(const MainThreadWatch&) = delete;

  // From now on note_end(context) is called by the main thread as it ends, when is_on() says false.
  // It stays off where the main thread has ended, in children that another thread forked, and where
  // another thread loaded the library, until the main thread calls this.
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
