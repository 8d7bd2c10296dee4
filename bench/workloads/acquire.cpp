// Acquiring pinned memory: through malloc on a fresh heap, and with the bare system calls.
#include <stdlib.h>

#include "bench/workloads/library.h"
#include "bench/workloads/meter.h"
#include "bench/workloads/pinned.h"

namespace rdmalloc::bench {

// One block for which the heap must acquire a region. Reports what the heap got, to show if the
// memory was not pinned, or the pages were not huge.
void run_acquire(const Arguments& arguments, Meter& meter) {
  keep(malloc(1));  // the heap's start-up is not measured
  const rdm_stats before = library().stats();
  meter.start();
  void* block = malloc(arguments.bytes);
  meter.stop();
  if (block == nullptr) fail("malloc", "no memory");
  const rdm_stats after = library().stats();
  report("acquire_ns", after.acquire_ns - before.acquire_ns);
  report("held", after.held_bytes - before.held_bytes);
  report("pinned", after.pinned_bytes - before.pinned_bytes);
  report("huge", after.huge_bytes - before.huge_bytes);
}

void run_acquire_bare(const Arguments& arguments, Meter& meter) {
  meter.start();
  keep(map_pinned(arguments.bytes, arguments.kind));
  meter.stop();
}

}  // namespace rdmalloc::bench
