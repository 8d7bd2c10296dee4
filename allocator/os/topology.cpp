#include "allocator/os/topology.h"

#include <sched.h>

#include "allocator/os/file.h"
#include "allocator/os/keep_errno.h"

namespace rdmalloc::os {

int current_node() {
  const KeepErrno keep;
  unsigned cpu = 0;
  unsigned node = 0;
  if (getcpu(&cpu, &node) != 0 || node >= kMaxNodes) return 0;
  return static_cast<int>(node);
}

bool has_several_nodes() {
  const KeepErrno keep;
  char online[64];
  const ssize_t got = read_file("/sys/devices/system/node/online", online, sizeof online);
  return got > 0 && !(Text{online, static_cast<size_t>(got)} == text("0\n"));
}

}  // namespace rdmalloc::os
