#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench/workloads/meter.h"

namespace rdmalloc::bench {

void report(const char* key, uint64_t value) {
  printf("%s %llu\n", key, static_cast<unsigned long long>(value));
}

void fail(const char* what, const char* why) {
  fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what, why);
  exit(EXIT_FAILURE);
}

}  // namespace rdmalloc::bench
