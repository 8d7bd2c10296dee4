// How long one thread can be delayed while another acquires much memory: by the kernel's lock on
// the address space, or by the malloc's own locks.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <iterator>
#include <string>
#include <thread>

#include "bench/workloads/library.h"
#include "bench/workloads/meter.h"

namespace rdmalloc::bench {
namespace {

constexpr size_t kPage = 4096;

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;

struct Action {
  const char* name;
  Clock::duration (*run)();  // returns how long it took, without its clean-up
  microseconds pause;        // before the next one, so that the other thread makes progress
};

Clock::duration map_and_unmap() {
  constexpr size_t kLength = 150'000;
  const auto start = Clock::now();
  void* range = mmap(nullptr, kLength, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (range == MAP_FAILED) fail("mmap", strerror(errno));
  munmap(range, kLength);
  return Clock::now() - start;
}

// With other blocks live, so that the freed one is not reused at once.
Clock::duration malloc_and_free() {
  static void* blocks[64] = {};
  static size_t next = 0;
  void*& block = blocks[next++ % std::size(blocks)];
  const auto start = Clock::now();
  free(block);
  block = malloc(150'000);
  keep(block);
  return Clock::now() - start;
}

Clock::duration fork_child() {
  const auto start = Clock::now();
  const pid_t child = fork();
  if (child == 0) _exit(0);
  const auto took = Clock::now() - start;
  if (child < 0) fail("fork", strerror(errno));
  waitpid(child, nullptr, 0);
  return took;
}

constexpr Action kActions[] = {{"mmap", map_and_unmap, microseconds(200)},
                               {"malloc", malloc_and_free, microseconds(200)},
                               {"fork", fork_child, microseconds(5000)}};

const Action& action_of(const std::string& name) {
  for (const Action& action : kActions) {
    if (name == action.name) return action;
  }
  fail(name.c_str(), "want mmap, malloc or fork");
}

void acquire(size_t bytes) {
  auto* block = static_cast<volatile char*>(malloc(bytes));
  if (block == nullptr) fail("malloc", "no memory");
  for (size_t i = 0; i < bytes; i += kPage) block[i] = 1;
}

uint64_t nanoseconds(Clock::duration duration) {
  return static_cast<uint64_t>(std::chrono::nanoseconds(duration).count());
}

}  // namespace

// stall BYTES mmap|malloc|fork[+domain]: one thread mallocs and touches BYTES in one block; this
// one repeats the action until that has ended, and reports the longest time. +domain: with a domain
// open on an io_uring of its own.
void run_stall(const Arguments& arguments, Meter& meter) {
  const std::string kind = arguments.kind;
  const size_t plus = kind.find('+');
  const Action& action = action_of(kind.substr(0, plus));
  if (plus != std::string::npos) library().open_io_uring(-1);
  action.run();  // the first run's one-time costs are not measured
  std::atomic<bool> done = false;
  Clock::duration worst{};
  uint64_t count = 0;
  meter.start();
  std::thread other([&] {
    acquire(arguments.bytes);
    done = true;
  });
  while (!done) {
    worst = std::max(worst, action.run());
    ++count;
    std::this_thread::sleep_for(action.pause);
  }
  other.join();
  meter.stop();
  report("worst_ns", nanoseconds(worst));
  report("actions", count);
}

// domain: only opens one, to learn whether that is possible.
void run_domain(const Arguments&, Meter& meter) {
  meter.start();
  library().open_io_uring(-1);
  meter.stop();
}

}  // namespace rdmalloc::bench
