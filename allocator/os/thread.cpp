#include "allocator/os/thread.h"

#include <errno.h>
#include <signal.h>

namespace rdmalloc::os {
namespace {

int create(pthread_t* thread, size_t stack, void* (*run)(void*), void* context) {
  if (stack == 0) return pthread_create(thread, nullptr, run, context);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, stack);
  const int error = pthread_create(thread, &attributes, run, context);
  pthread_attr_destroy(&attributes);
  return error == EINVAL ? create(thread, 0, run, context) : error;
}

}  // namespace

int start_thread(pthread_t* thread, const char* name, size_t stack, void* (*run)(void*),
                 void* context) {
  // The new thread inherits the mask.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const int error = create(thread, stack, run, context);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (error == 0) (void)pthread_setname_np(*thread, name);
  return error;
}

}  // namespace rdmalloc::os
