#include "tests/support/fake_process_barrier.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "allocator/os/process_barrier.h"

namespace rdmalloc {

fake::ProcessBarrier fake::process_barrier;

// Calls the real membarrier, if the test lets it be seen, because the threads are real.
bool os::enable_process_barrier() {
  return fake::process_barrier.is_there &&
         syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
}

bool os::process_barrier() {
  ++fake::process_barrier.calls;
  return fake::process_barrier.works &&
         syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0;
}

bool os::enable_restart_barrier() {
  constexpr int kRegister = 1 << 8;
  return fake::process_barrier.is_there && syscall(SYS_membarrier, kRegister, 0, 0) == 0;
}

bool os::restart_barrier(int processor) {
  constexpr int kRestart = 1 << 7;
  ++fake::process_barrier.calls;
  const int flags = processor == kAllProcessors ? 0 : 1;
  return fake::process_barrier.works && syscall(SYS_membarrier, kRestart, flags, processor) == 0;
}

}  // namespace rdmalloc
