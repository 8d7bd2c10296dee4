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

namespace rdmalloc {

// What we use of linux/io_uring.h: headers before Linux 5.13 lack it, or all of the file.
enum class IoUringOperation : unsigned {
  kUnregisterBuffers = 1,  // IORING_UNREGISTER_BUFFERS, and so on
  kRegisterBuffers2 = 15,
  kRegisterBuffersUpdate = 16,
};
// io_uring_rsrc_register: so many empty slots.
struct IoUringTable {
  uint32_t slots = 0;
  uint32_t flags = 1;  // IORING_RSRC_REGISTER_SPARSE, since Linux 5.19
  uint64_t rest[3] = {};
};
// io_uring_rsrc_update2
struct IoUringUpdate {
  uint32_t offset = 0;  // the first slot's number
  uint32_t reserved = 0;
  uint64_t data = 0;  // address of iovecs
  uint64_t tags = 0;
  uint32_t count = 0;  // of slots
  uint32_t reserved_too = 0;
};
// io_uring_params
struct IoUringParameters {
  uint32_t entries[2] = {};
  uint32_t flags = 0;
  uint32_t rest[27] = {};
};

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
  int call(IoUringOperation operation, void* argument, unsigned count);

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
  IoUringOperation operation_{};
  void* argument_ = nullptr;
  unsigned count_ = 0;
  int result_ = 0;
};

}  // namespace rdmalloc
