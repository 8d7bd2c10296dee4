#include "allocator/os/standard_error.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "allocator/os/confinement.h"
#include "allocator/os/file.h"
#include "allocator/os/keep_errno.h"

namespace rdmalloc::os {
namespace {

struct Identity {
  bool known = false;
  dev_t device = 0;
  ino_t inode = 0;
};

Identity identify() {
  struct stat status {};
  if (fstat(STDERR_FILENO, &status) != 0) return {};
  return {true, status.st_dev, status.st_ino};
}

Identity at_start;

}  // namespace

void remember_standard_error() {
  if (at_start.known) return;
  const KeepErrno keep;
  at_start = identify();
}

void write_standard_error(const char* data, size_t size) {
  if (is_confined()) return;
  const KeepErrno keep;
  const Identity now = identify();
  if (!now.known || now.device != at_start.device || now.inode != at_start.inode) return;
  sigset_t pipe;
  sigset_t before;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  if (pthread_sigmask(SIG_BLOCK, &pipe, &before) != 0) return;
  if (!write_all(STDERR_FILENO, data, size) && sigismember(&before, SIGPIPE) == 0) {
    // If the signal is ours, take it back before it is delivered. libc's sigtimedwait would be a
    // cancellation point.
    const timespec at_once{0, 0};
    (void)syscall(SYS_rt_sigtimedwait, &pipe, nullptr, &at_once, _NSIG / 8);
  }
  (void)pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace rdmalloc::os
