#include "bench/support/has_memory.h"

#include <stdio.h>

#include <fstream>
#include <limits>
#include <string>

namespace rdmalloc::bench {

bool has_memory(size_t bytes) {
  std::ifstream file("/proc/meminfo");
  std::string field;
  size_t kib = 0;
  while (file >> field >> kib && field != "MemAvailable:") {
    file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  const size_t available = field == "MemAvailable:" ? kib << 10 : 0;
  if (available >= bytes) return true;
  fprintf(stderr, "skipped: this needs %zu MiB of memory, and %zu MiB are available\n", bytes >> 20,
          available >> 20);
  return false;
}

}  // namespace rdmalloc::bench
