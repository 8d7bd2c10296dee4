#include "allocator/tools/doctor/probe.h"

#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <new>
#include <thread>
#include <vector>

#include "allocator/tools/refusal.h"
#include "include/rdmalloc/rdmalloc.h"

namespace rdmalloc::cli {
namespace {

constexpr size_t kSizes[] = {1,     16,    24,      100,       1024,      4096,
                             14337, 65536, 100'001, 1'000'000, 2'097'152, 5'000'000};
constexpr size_t kProbeThreads = 8;

// Allocated before libc has run any constructor, including the library's own.
constexpr size_t kEarlySizes[] = {24, 5000, 300'000};
void* early[std::size(kEarlySizes)];

void allocate_early(int argc, char** argv, char**) {
  if (argc < 2 || strcmp(argv[1], "probe") != 0) return;
  for (size_t i = 0; i < std::size(kEarlySizes); ++i) early[i] = malloc(kEarlySizes[i]);
}

[[gnu::section(".preinit_array"), gnu::used]] void (*const at_preinit)(int, char**,
                                                                       char**) = allocate_early;

struct Counts {
  decltype(&rdm_owns) owns;
  std::atomic<uint64_t> asked{0};
  std::atomic<uint64_t> in_window{0};

  // Null means out of memory, under a small memory cap; it does not show which allocator served.
  void note(const void* pointer) {
    if (pointer == nullptr) return;
    ++asked;
    if (owns(pointer) == 1) ++in_window;
  }
};

void allocate_every_way(Counts& counts) {
  std::vector<void*> kept;
  kept.reserve(4 * std::size(kSizes));
  for (const size_t size : kSizes) {
    void* grown = malloc(size);
    counts.note(grown);
    void* moved = realloc(grown, size * 2);
    kept.push_back(moved != nullptr ? moved : grown);
    kept.push_back(calloc(size, 1));
    kept.push_back(aligned_alloc(4096, (size + 4095) & ~size_t{4095}));
    kept.push_back(strdup("a short string that libc copies"));
    char* made = new (std::nothrow) char[size];
    counts.note(made);
    delete[] made;
  }
  for (void* pointer : kept) {
    counts.note(pointer);
    free(pointer);
  }
}

void allocate_as_far_as_it_goes(Counts& counts) {
  try {
    allocate_every_way(counts);
  } catch (const std::bad_alloc&) {
  }
}

void allocate_on_threads(Counts& counts) {
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kProbeThreads; ++i)
    threads.emplace_back(allocate_as_far_as_it_goes, std::ref(counts));
  for (std::thread& thread : threads) thread.join();
}

template <typename Function>
Function find(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
}

}  // namespace

int probe() {
  Counts counts{find<decltype(&rdm_owns)>("rdm_owns")};
  const auto report = find<decltype(&rdm_stats_json)>("rdm_stats_json");
  const auto monitor = find<decltype(&rdm_monitor)>("rdm_monitor");
  if (counts.owns == nullptr || report == nullptr || monitor == nullptr) {
    throw Refusal("the probe runs without the library: it is a part of info and doctor");
  }
  for (void* pointer : early) {
    counts.note(pointer);
    free(pointer);
  }
  allocate_as_far_as_it_goes(counts);
  allocate_on_threads(counts);
  printf("%lu %lu %zu\n", counts.asked.load(), counts.in_window.load(), kProbeThreads);
  const char* why = "";
  const char* const name = monitor(&why);
  printf("%s %s\n", name, why);
  fflush(stdout);
  return report(STDOUT_FILENO) == RDM_OK ? kExitOk : kExitProblem;
}

}  // namespace rdmalloc::cli
