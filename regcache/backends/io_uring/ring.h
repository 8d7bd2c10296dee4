// The only place that makes io_uring's system calls, on a ring of the caller's or one of our own.
//
// Our own ring has no descriptor in the program's table, so that closefrom() does not close it and
// no child inherits it: it lives in a keeper thread with a descriptor table of its own. The obvious
// alternatives fail: closing the descriptor after its ring was mapped keeps the pins but allows no
// new ones, and a registered ring descriptor serves only the thread that registered it.
//
// call() may be used by several threads at a time and inside malloc: it makes plain system calls
// and waits for the keeper, which does the same. Everything else is for one thread, outside malloc.
// In a child of fork the keeper is gone: nothing may be called there.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>

#include "allocator/os/io_uring.h"

namespace rdmalloc {

class IoUringRing {
 public:
  IoUringRing() = default;
  IoUringRing(const IoUringRing&) = delete;
  IoUringRing& operator=(const IoUringRing&) = delete;

  // From now on calls go to this descriptor.
  void borrow(int fd) { fd_ = fd; }

  // Makes our own ring and its keeper. 0, or an errno.
  int create();

  // Releases a borrowed ring, or closes our own. May be called twice.
  void release();

  bool is_own() const { return own_; }
  int fd() const { return fd_; }

  // Calls io_uring_register(). Returns its result, or -errno.
  int call(os::IoUringOperation operation, void* argument, unsigned count);

 private:
  // What the mailbox holds; each value is written by one side only.
  enum : uint32_t { kStarting, kIdle, kAsked, kStop, kAnswered };

  void keep();
  void answer();
  int wait_for_answer();

  int fd_ = -1;  // in the keeper's table if it is our own
  bool own_ = false;
  pthread_t keeper_{};

  pthread_mutex_t callers_ =
      PTHREAD_MUTEX_INITIALIZER;  // one request at a time; guards what follows
  std::atomic<uint32_t> mailbox_{kIdle};
  os::IoUringOperation operation_{};
  void* argument_ = nullptr;
  unsigned count_ = 0;
  int result_ = 0;
};

}  // namespace rdmalloc
