#include "allocator/os/process_barrier.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>

#include "allocator/os/system_call.h"

namespace rdmalloc::os {

bool enable_process_barrier() {
  return system_call(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0;
}

bool process_barrier() {
  return system_call(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0;
}

}  // namespace rdmalloc::os
