#include "regcache/shm/process.h"

#include "allocator/os/process.h"

namespace rdmalloc::shm {

Process this_process() {
  const os::Process self = os::this_process();
  return {static_cast<uint32_t>(self.number), self.start, os::process_namespace()};
}

bool is_seen_running(const Process& other, const Process& self) {
  if (other.id == 0 || other.start == 0 || other.name_space != self.name_space) return false;
  uint64_t start = 0;
  return os::read_start(other.id, &start) && start == other.start;
}

}  // namespace rdmalloc::shm
