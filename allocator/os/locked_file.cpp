#include "allocator/os/locked_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

#include "allocator/os/clock.h"
#include "allocator/os/confinement.h"
#include "allocator/os/file.h"
#include "allocator/os/process.h"
#include "allocator/os/system_call.h"

namespace rdmalloc::os {
namespace {

// A holder needs some microseconds, unless it lost its processor.
constexpr long kFirstPause = 20'000;
constexpr long kLongestPause = 1'000'000;

void pause_for(long ns) {
  const timespec time = {0, ns};
  (void)system_call(SYS_nanosleep, word(&time));
}

bool is_own(const struct stat& file) {
  constexpr mode_t kOthersMayWrite = 022;
  return S_ISREG(file.st_mode) && file.st_uid == effective_user() &&
         (file.st_mode & kOthersMayWrite) == 0;
}

}  // namespace

LockedFile::LockedFile(const char* path, uint64_t patience_ns) {
  if (is_confined()) {
    error_ = EPERM;
    state_ = State::kFailed;
    return;
  }
  constexpr int kHow = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  const long fd = system_call(SYS_openat, AT_FDCWD, word(path), kHow, 0600);
  if (fd < 0) {
    error_ = static_cast<int>(-fd);
    // Another user's file in a sticky directory, a symbolic link, or a directory.
    const bool foreign = error_ == EACCES || error_ == ELOOP || error_ == EISDIR;
    state_ = foreign ? State::kForeign : State::kFailed;
    return;
  }
  fd_ = static_cast<int>(fd);
  state_ = lock(patience_ns);
}

LockedFile::~LockedFile() {
  if (fd_ < 0) return;
  // Unlock explicitly: a child that another thread forks meanwhile may keep the descriptor open a
  // little longer.
  (void)system_call(SYS_flock, fd_, LOCK_UN);
  close_file(fd_);
}

LockedFile::State LockedFile::lock(uint64_t patience_ns) {
  struct stat file {};
  if (system_call(SYS_fstat, fd_, word(&file)) != 0 || !is_own(file)) return State::kForeign;
  const uint64_t until = now_ns() + patience_ns;
  for (long pause = kFirstPause;; pause = pause < kLongestPause ? pause * 2 : pause) {
    const long status = system_call(SYS_flock, fd_, LOCK_EX | LOCK_NB);
    if (status == 0) break;
    if (status != -EWOULDBLOCK && status != -EINTR) {
      error_ = static_cast<int>(-status);
      return State::kFailed;
    }
    if (now_ns() > until) return State::kBusy;
    pause_for(pause);
  }
  // Read again, now that nobody else writes.
  if (system_call(SYS_fstat, fd_, word(&file)) != 0) return State::kFailed;
  size_ = static_cast<uint64_t>(file.st_size);
  return State::kLocked;
}

bool LockedFile::read(uint64_t offset, void* buffer, size_t size) const {
  const long got = system_call(SYS_pread64, fd_, word(buffer), static_cast<long>(size),
                               static_cast<long>(offset));
  return got == static_cast<long>(size);
}

bool LockedFile::write(uint64_t offset, const void* data, size_t size) const {
  const long put = system_call(SYS_pwrite64, fd_, word(data), static_cast<long>(size),
                               static_cast<long>(offset));
  return put == static_cast<long>(size);
}

}  // namespace rdmalloc::os
