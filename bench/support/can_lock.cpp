#include "bench/support/can_lock.h"

#include <stdio.h>
#include <sys/mman.h>

namespace rdmalloc::bench {

bool can_lock(size_t bytes) {
  void* range = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  // MLOCK_ONFAULT counts against the limit, but takes no pages.
  const bool locked = range != MAP_FAILED && mlock2(range, bytes, MLOCK_ONFAULT) == 0;
  if (range != MAP_FAILED) munmap(range, bytes);
  if (locked) return true;
  fprintf(stderr,
          "skipped: this needs %zu MiB of locked memory, more than RLIMIT_MEMLOCK allows: raise it "
          "with ulimit -l, or run as root\n",
          bytes >> 20);
  return false;
}

}  // namespace rdmalloc::bench
