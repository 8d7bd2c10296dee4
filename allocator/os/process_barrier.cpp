#include "allocator/os/process_barrier.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>

#include "allocator/os/system_call.h"

namespace rdmalloc::os {
namespace {

// As Linux 5.10 numbers them: headers of older systems do not.
constexpr int kRestartSequences = 1 << 7;
constexpr int kRegisterForSequences = 1 << 8;
constexpr unsigned kOnOneProcessor = 1;

}  // namespace

bool enable_process_barrier() {
  return system_call(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0;
}

bool process_barrier() {
  return system_call(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0;
}

bool enable_restart_barrier() { return system_call(SYS_membarrier, kRegisterForSequences) == 0; }

bool restart_barrier(int processor) {
  const unsigned flags = processor == kAllProcessors ? 0 : kOnOneProcessor;
  return system_call(SYS_membarrier, kRestartSequences, flags, processor) == 0;
}

}  // namespace rdmalloc::os
