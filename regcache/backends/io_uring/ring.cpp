#include "regcache/backends/io_uring/ring.h"

#include <errno.h>
#include <unistd.h>

#include "allocator/os/futex.h"
#include "allocator/os/newer_headers.h"
#include "allocator/os/thread.h"

namespace rdmalloc {
namespace {

// Enough for a signal frame of libc's own (setuid() signals every thread), and small, because
// mlockall() locks all of it.
constexpr size_t kKeeperStack = size_t{128} << 10;

int result_of(long returned) { return returned < 0 ? -errno : static_cast<int>(returned); }

int register_call(int fd, os::IoUringOperation operation, void* argument, unsigned count) {
  for (;;) {
    const int result = result_of(syscall(SYS_io_uring_register, fd, operation, argument, count));
    if (result != -EINTR) return result;
  }
}

}  // namespace

int IoUringRing::create() {
  mailbox_.store(kStarting, std::memory_order_relaxed);
  const auto run = [](void* self) -> void* {
    static_cast<IoUringRing*>(self)->keep();
    return nullptr;
  };
  const int error = os::start_thread(&keeper_, "rdmalloc-pin", kKeeperStack, run, this);
  if (error != 0) return error;
  own_ = true;
  const int result = wait_for_answer();
  if (result == 0) return 0;
  release();
  return -result;
}

void IoUringRing::release() {
  if (own_) {
    mailbox_.store(kStop, std::memory_order_release);
    os::wake_all(mailbox_);
    pthread_join(keeper_, nullptr);
  }
  own_ = false;
  fd_ = -1;
}

int IoUringRing::call(os::IoUringOperation operation, void* argument, unsigned count) {
  if (!own_) return register_call(fd_, operation, argument, count);
  pthread_mutex_lock(&callers_);
  operation_ = operation;
  argument_ = argument;
  count_ = count;
  mailbox_.store(kAsked, std::memory_order_release);
  os::wake_all(mailbox_);
  const int result = wait_for_answer();
  pthread_mutex_unlock(&callers_);
  return result;
}

int IoUringRing::wait_for_answer() {
  for (;;) {
    const uint32_t seen = mailbox_.load(std::memory_order_acquire);
    if (seen == kAnswered) break;
    os::wait_while(mailbox_, seen);
  }
  const int result = result_;
  mailbox_.store(kIdle, std::memory_order_release);
  return result;
}

// The keeper thread. It must not call malloc, and touches nothing of the program's.
void IoUringRing::keep() {
  // Start with an empty descriptor table of our own; the program's descriptors stay open in its.
  if (syscall(SYS_close_range, 0U, ~0U, CLOSE_RANGE_UNSHARE) != 0) {
    result_ = -errno;
  } else {
    os::IoUringParameters parameters{};
    result_ = result_of(syscall(SYS_io_uring_setup, 1, &parameters));
    if (result_ >= 0) {
      fd_ = result_;
      result_ = 0;
    }
  }
  answer();
  for (;;) {
    const uint32_t seen = mailbox_.load(std::memory_order_acquire);
    if (seen == kStop) break;
    if (seen == kAsked) {
      result_ = register_call(fd_, operation_, argument_, count_);
      answer();
    } else {
      os::wait_while(mailbox_, seen);
    }
  }
  if (fd_ >= 0) syscall(SYS_close, fd_);
}

void IoUringRing::answer() {
  mailbox_.store(kAnswered, std::memory_order_release);
  os::wake_all(mailbox_);
}

}  // namespace rdmalloc
