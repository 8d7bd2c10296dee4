#include "allocator/os/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>

#include "allocator/os/keep_errno.h"

namespace rdmalloc::os {

static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t));

void wait_while(const std::atomic<uint32_t>& word, uint32_t expected) {
  KeepErrno keep;
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, expected, nullptr, nullptr, 0);
}

void wake_all(const std::atomic<uint32_t>& word) {
  KeepErrno keep;
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace rdmalloc::os
