// Threads of the userfaultfd monitor. They must never wait for the monitor themselves.
#pragma once

#include <pthread.h>

#include "allocator/os/thread.h"

namespace rdmalloc {

inline thread_local constinit bool is_userfaultfd_thread = false;

// Runs a member function of `self` in a new thread. Returns 0 or an errno.
template <auto run, class Self>
int start_userfaultfd_thread(pthread_t* thread, const char* name, Self* self) {
  const auto begin = [](void* given) -> void* {
    is_userfaultfd_thread = true;
    (static_cast<Self*>(given)->*run)();
    return nullptr;
  };
  return os::start_thread(thread, name, 0, begin, self);
}

}  // namespace rdmalloc
