#include "bench/support/has_memory.h"

#include <stdio.h>

#include <fstream>
#include <limits>
#include <string>

namespace rdmalloc::bench {

size_t available_memory() {
  std::ifstream file("/proc/meminfo");
  std::string field;
  size_t kib = 0;
  while (file >> field >> kib && field != "MemAvailable:") {
    file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return field == "MemAvailable:" ? kib << 10 : 0;
}

bool has_memory(size_t bytes) {
  const size_t available = available_memory();
  if (available >= bytes) return true;
  fprintf(stderr, "skipped: this needs %zu MiB of memory, and %zu MiB are available\n", bytes >> 20,
          available >> 20);
  return false;
}

}  // namespace rdmalloc::bench
