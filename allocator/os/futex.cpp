#include "allocator/os/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <climits>

#include "allocator/os/keep_errno.h"

namespace rdmalloc::os {

static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t));

void wait_while(const std::atomic<uint32_t>& word, uint32_t expected) {
  KeepErrno keep;
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, expected, nullptr, nullptr, 0);
}

void wait_while_for(const std::atomic<uint32_t>& word, uint32_t expected, uint64_t ns) {
  KeepErrno keep;
  constexpr uint64_t kSecond = 1'000'000'000;
  const timespec limit{static_cast<time_t>(ns / kSecond), static_cast<long>(ns % kSecond)};
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, expected, &limit, nullptr, 0);
}

void wake_all(const std::atomic<uint32_t>& word) {
  KeepErrno keep;
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace rdmalloc::os
