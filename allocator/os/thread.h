// Threads of our own in somebody else's program.
#pragma once

#include <pthread.h>

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

}  // namespace rdmalloc::os
