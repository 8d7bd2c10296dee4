// Getting pinned memory: through malloc on a fresh heap, and with the bare system calls.
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "bench/workloads/meter.h"
#include "rdmalloc/rdmalloc.h"

namespace rdmalloc::bench {
namespace {

constexpr int kMadvPopulateWrite = 23;  // Linux 5.14; Debian 12's headers may lack it

// This program is not linked to the library: it must run under every malloc.
rdm_stats stats_now() {
  rdm_stats stats{};
  using StatsGet = int (*)(rdm_stats*, size_t);
  const auto get = reinterpret_cast<StatsGet>(dlsym(RTLD_DEFAULT, "rdm_stats_get"));
  if (get != nullptr) get(&stats, sizeof stats);
  return stats;
}

[[noreturn]] void fail(const char* what) {
  fprintf(stderr, "bench_workload: %s: %s\n", what, strerror(errno));
  exit(EXIT_FAILURE);
}

}  // namespace

// One block for which the heap has to acquire a region. Says what the heap got, so that the reader
// sees when the memory was not pinned, or the pages not huge.
void run_acquire(const Arguments& arguments, Meter& meter) {
  keep(malloc(1));  // the heap's own start is not measured
  const rdm_stats before = stats_now();
  meter.start();
  void* block = malloc(arguments.bytes);
  meter.stop();
  if (block == nullptr) fail("malloc");
  const rdm_stats after = stats_now();
  report("acquire_ns", after.acquire_ns - before.acquire_ns);
  report("held", after.held_bytes - before.held_bytes);
  report("pinned", after.pinned_bytes - before.pinned_bytes);
  report("huge", after.huge_bytes - before.huge_bytes);
}

void run_acquire_bare(const Arguments& arguments, Meter& meter) {
  const bool hugetlb = strcmp(arguments.kind, "hugetlb") == 0;
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | (hugetlb ? MAP_HUGETLB : 0);
  meter.start();
  void* block = mmap(nullptr, arguments.bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
  if (block == MAP_FAILED) fail("mmap");
  if (strcmp(arguments.kind, "thp") == 0) madvise(block, arguments.bytes, MADV_HUGEPAGE);
  if (madvise(block, arguments.bytes, kMadvPopulateWrite) != 0) fail("MADV_POPULATE_WRITE");
  if (mlock(block, arguments.bytes) != 0) fail("mlock");
  meter.stop();
}

}  // namespace rdmalloc::bench
