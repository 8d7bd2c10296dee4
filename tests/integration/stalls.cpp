// While one thread repeatedly mallocs and touches 1 GiB in one block, others go on: mmap and
// munmap, malloc and free of medium blocks, and fork with malloc in the child. None may wait for
// the large block's pages. The bound is generous: shorter waits are a matter for benchmarks. Where
// the block takes long, as in an emulator, a quarter of its time is allowed.
//
//   stalls MIB ROUNDS [stall]
//
// `stall` allocates the large block under a lock that the others take, which must be noticed.
// A deadlock is ended by the time limit of the test, which shows the stacks.
#include <pthread.h>
#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <mutex>

#include "tests/integration/probe.h"

namespace {

constexpr double kMostSeconds = 2;
constexpr double kMostShare = 0.25;  // of the quickest block's time
constexpr size_t kMapped = 1 << 20;
constexpr size_t kMiddling = 150 << 10;

probe::Verdict verdict;
size_t large;
bool stalls;
std::mutex stall;
std::atomic<bool> growing{false}, ended{false};
double quickest = 1e9;  // s

double now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

struct Other {
  const char* name;
  void (*once)();
  pthread_t thread = {};
  uint64_t during = 0;  // while the large block grew
  double worst = 0;     // s
};

void map_and_unmap() {
  void* pages = mmap(nullptr, kMapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) return verdict.broken("mmap failed");
  memset(pages, 1, probe::kPage);
  munmap(pages, kMapped);
}

void malloc_and_free() {
  void* block = malloc(kMiddling);
  if (block == nullptr) return verdict.broken("malloc failed");
  memset(block, 2, kMiddling);
  free(block);
}

void fork_and_wait() { verdict.expect_good_end("a child", probe::run_child(malloc_and_free)); }

Other others[] = {{"mmap", map_and_unmap}, {"malloc", malloc_and_free}, {"fork", fork_and_wait}};

void* go_on(void* argument) {
  auto& other = *static_cast<Other*>(argument);
  while (!ended.load()) {
    const bool was_growing = growing.load();
    const double from = now();
    if (stalls) stall.lock();
    other.once();
    if (stalls) stall.unlock();
    other.worst = std::max(other.worst, now() - from);
    if (was_growing) ++other.during;
    const timespec nap{0, 1'000'000};
    nanosleep(&nap, nullptr);
  }
  return nullptr;
}

void make_large_block() {
  growing.store(true);
  const double from = now();
  if (stalls) stall.lock();
  auto* block = static_cast<char*>(malloc(large));
  if (block == nullptr) {
    verdict.broken("malloc of %zu bytes failed", large);
  } else {
    for (size_t at = 0; at < large; at += probe::kPage) block[at] = 3;
  }
  quickest = std::min(quickest, now() - from);
  if (stalls) {
    const timespec nap{static_cast<time_t>(kMostSeconds) + 1, 0};
    nanosleep(&nap, nullptr);
    stall.unlock();
  }
  growing.store(false);
  free(block);
}

}  // namespace

int main(int argc, char** argv) {
  large = probe::argument(argc, argv, 1, 1024) << 20;
  const uint64_t rounds = probe::argument(argc, argv, 2, 3);
  stalls = argc > 3 && strcmp(argv[3], "stall") == 0;
  for (Other& other : others) pthread_create(&other.thread, nullptr, go_on, &other);
  for (uint64_t round = 0; round < rounds && verdict.count() == 0; ++round) make_large_block();
  ended.store(true);
  const double most = std::max(kMostSeconds, kMostShare * quickest);
  for (Other& other : others) {
    pthread_join(other.thread, nullptr);
    printf("%s: %lu times meanwhile, the longest took %.0f ms\n", other.name, other.during,
           other.worst * 1e3);
    if (other.during == 0) verdict.broken("%s was not tried while the block grew", other.name);
    if (other.worst > most) {
      verdict.broken("%s took %.1f s while the block grew", other.name, other.worst);
    }
  }
  return verdict.status();
}
