// `rdmalloc trace cost`: started by `trace record` to measure what recording a call costs here.
#include <ctime>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "allocator/tools/refusal.h"
#include "allocator/tools/trace/trace.h"

namespace rdmalloc::cli {
namespace {

constexpr int kRounds = 1'000'000;

double processor_ns() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

void call_malloc() {
  std::array<void*, 64> held{};
  for (int i = 0; i < kRounds; ++i) {
    void*& place = held[static_cast<size_t>(i) % held.size()];
    free(place);
    place = malloc(32 + static_cast<size_t>(i) % 7 * 48);
    // Otherwise the compiler would remove both calls.
    asm volatile("" : : "r"(place) : "memory");
  }
  for (void* place : held) free(place);
}

}  // namespace

int trace_cost(bool threads) {
  // Once a second thread has existed, each call has a stamp of its own.
  if (threads) std::thread([] {}).join();
  const double start = processor_ns();
  call_malloc();
  printf("%.3f\n", (processor_ns() - start) / (2.0 * kRounds));
  return kExitOk;
}

}  // namespace rdmalloc::cli
