#include "allocator/tools/study/machine.h"

#include <sched.h>
#include <sys/utsname.h>

#include "allocator/os/limits.h"
#include "allocator/tools/child.h"
#include "allocator/tools/top/process_status.h"

namespace rdmalloc::cli::study {
namespace {

std::string cpu_name() {
  return std::string(line_after(read_file("/proc/cpuinfo"), "model name\t: ").value_or("unknown"));
}

unsigned usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return 0;
  return static_cast<unsigned>(CPU_COUNT(&set));
}

}  // namespace

Machine this_machine() {
  Machine machine;
  machine.cpu = cpu_name();
  machine.cores = usable_cores();
  machine.memory_bytes = os::total_memory();
  utsname name{};
  if (uname(&name) == 0) machine.kernel = name.release;
  const uint64_t limit = os::lock_limit().effective();
  if (limit != os::kNoLimit) machine.memlock_bytes = limit;
  double load = 0;
  if (getloadavg(&load, 1) == 1) machine.load = load;
  return machine;
}

}  // namespace rdmalloc::cli::study
