// PROGRAM NAME [BYTES [KIND]]: runs one workload once under the malloc that the process has, and
// prints its cost as "key value" lines. Different mallocs cannot share a process, so the bench_*
// programs start this one with a different LD_PRELOAD each time.
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/workloads/meter.h"

namespace rdmalloc::bench {

namespace {

// Prints whose malloc this process has, so that a peer that failed to load is not measured as one.
int print_owner() {
  Dl_info info{};
  void* address = dlsym(RTLD_DEFAULT, "malloc");
  if (address == nullptr || dladdr(address, &info) == 0) return EXIT_FAILURE;
  printf("malloc_from %s\n", info.dli_fname);
  return EXIT_SUCCESS;
}

int list_workloads() {
  fprintf(stderr, "usage: %s NAME [BYTES [KIND]]; NAME: owner", program_invocation_short_name);
  for (const Workload& workload : workloads()) fprintf(stderr, " %s", workload.name);
  fprintf(stderr, "\n");
  return EXIT_FAILURE;
}

}  // namespace
}  // namespace rdmalloc::bench

int main(int argc, char** argv) {
  using namespace rdmalloc::bench;
  if (argc < 2) return list_workloads();
  if (strcmp(argv[1], "owner") == 0) return print_owner();
  Arguments arguments;
  if (argc > 2) arguments.bytes = strtoull(argv[2], nullptr, 10);
  if (argc > 3) arguments.kind = argv[3];
  const char* short_form = getenv("BENCH_SHORT");
  arguments.short_form = short_form != nullptr && strcmp(short_form, "0") != 0;
  for (const Workload& workload : workloads()) {
    if (strcmp(workload.name, argv[1]) != 0) continue;
    Meter meter;
    workload.run(arguments, meter);
    report("cpu_ns", meter.cpu_ns());
    report("wall_ns", meter.wall_ns());
    return EXIT_SUCCESS;
  }
  return list_workloads();
}
