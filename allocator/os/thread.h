// Threads of our own in somebody else's program.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstddef>

namespace rdmalloc::os {

// Starts a thread that blocks all signals: they are the program's, and its handlers may malloc.
// `stack`: bytes, 0 for the program's default, which is also taken where so few are not enough for
// its thread-local data. 0, or an errno. Not inside malloc: pthread_create allocates.
int start_thread(pthread_t* thread, const char* name, size_t stack, void* (*run)(void*),
                 void* context);

// While one lives, the thread cannot be cancelled: a cancelled thread would keep locks and counts
// of ours for ever.
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
// when is_only_ours_left(). By the destructor of a thread's data: it runs when the thread ends, but
// not when the process does.
class MainThreadWatch {
 public:
  constexpr MainThreadWatch() = default;
  MainThreadWatch(const MainThreadWatch&) = delete;
  MainThreadWatch& operator=(const MainThreadWatch&) = delete;

  // note_end(context) is called by the main thread as it ends, when is_on() says false. Nothing is
  // watched unless the main thread calls this. One thread at a time.
  void start(void (*note_end)(void* context), void* context);
  bool is_on() const { return is_on_.load(std::memory_order_acquire); }
  void stop();
  // In the child of a fork: what was watched was another thread.
  void note_fork_child() { is_on_ = false; }

 private:
  std::atomic<bool> is_on_{false};
  bool has_key_ = false;  // once made it is kept, for children of fork too
  pthread_key_t key_ = 0;
  void (*note_end_)(void* context) = nullptr;
  void* context_ = nullptr;
};

}  // namespace rdmalloc::os
