// What 2 MiB pages are for: much memory in one block, acquired, read at random, and released by
// process exit.
#include <stdlib.h>

#include "bench/workloads/meter.h"

namespace rdmalloc::bench {
namespace {

constexpr size_t kPage = 4096;

uint64_t now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000U + static_cast<uint64_t>(time.tv_nsec);
}

// Each read yields the address of the next, as in a list, so it waits for the page-table walk and
// the memory.
uint64_t read_at_random(const volatile char* block, size_t bytes, size_t count) {
  Random random(1);
  uint64_t sum = 0;
  for (size_t i = 0; i < count; ++i) {
    sum += static_cast<uint64_t>(block[(random.next() + sum) % bytes]);
  }
  return sum;
}

}  // namespace

// huge BYTES. Prints when the process began to exit, on CLOCK_MONOTONIC; the waiting parent can
// compute how long that took.
void run_huge(const Arguments& arguments, Meter& meter) {
  const size_t bytes = arguments.bytes;
  keep(malloc(1));  // the heap's start-up is not measured
  meter.start();
  auto* block = static_cast<volatile char*>(malloc(bytes));
  if (block == nullptr) fail("malloc", "no memory");
  for (size_t i = 0; i < bytes; i += kPage) block[i] = 1;
  meter.stop();
  report("acquire_ns", meter.wall_ns());
  const uint64_t start = now();
  const uint64_t sum = read_at_random(block, bytes, arguments.repeat(5'000'000));
  report("reads_ns", now() - start);
  report("sum", sum);
  report("exit_at_ns", now());
}

}  // namespace rdmalloc::bench
