#include "regcache/shm/doorbell.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace rdmalloc::shm {

namespace {

constexpr uint64_t kSleepWithoutBarrier = 1'000'000;  // ns

std::atomic<bool> has_barrier{false};

}  // namespace

void Doorbell::set_up() {
  const int saved = errno;
  const bool is_registered =
      syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0;
  has_barrier.store(is_registered, std::memory_order_relaxed);
  errno = saved;
}

uint32_t Doorbell::enter() {
  const uint32_t ticket = words_->rings.load(std::memory_order_relaxed);
  // seq_cst: this process's fence; the system call gives the others theirs.
  words_->sleepers.fetch_add(1, std::memory_order_seq_cst);
  const int saved = errno;
  if (has_barrier.load(std::memory_order_relaxed)) {
    syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);
  }
  errno = saved;
  return ticket;
}

void Doorbell::sleep(uint32_t ticket, uint64_t ns) {
  if (!has_barrier.load(std::memory_order_relaxed) && ns > kSleepWithoutBarrier) {
    ns = kSleepWithoutBarrier;
  }
  constexpr uint64_t kSecond = 1'000'000'000;
  const timespec limit{static_cast<time_t>(ns / kSecond), static_cast<long>(ns % kSecond)};
  const int saved = errno;
  // Not FUTEX_WAIT_PRIVATE: the waker is another process.
  syscall(SYS_futex, &words_->rings, FUTEX_WAIT, ticket, &limit, nullptr, 0);
  errno = saved;
}

void Doorbell::wake() {
  const int saved = errno;
  words_->rings.fetch_add(1, std::memory_order_relaxed);
  syscall(SYS_futex, &words_->rings, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  errno = saved;
}

}  // namespace rdmalloc::shm
