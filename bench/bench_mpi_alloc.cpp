// Allocating and freeing a block through MPI: MPI_Alloc_mem and MPI_Free_mem through
// librdmalloc-mpi.so, against malloc and free (ours), the MPI library's own pair on our malloc, and
// glibc's malloc and free, in one process and one run.
//
// Includes no mpi.h: BENCH_MPI=openmpi or mpich chooses one of the installed MPI libraries. Every
// round times a slice of each side in CPU time, in a different order each time.
#include <benchmark/benchmark.h>
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <list>
#include <string>
#include <vector>

#include "bench/peers/mpi_wrapper.h"
#include "bench/support/allocator.h"
#include "bench/support/can_lock.h"
#include "bench/support/contest.h"
#include "include/rdmalloc/rdmalloc.h"

using namespace rdmalloc::bench;

extern "C" {

// The shim's functions: this program is linked with it.
int MPI_Alloc_mem(ptrdiff_t size, uintptr_t info, void* base);
int MPI_Free_mem(void* base);
// glibc's functions, under its internal names.
void* __libc_malloc(size_t size);  // NOLINT(bugprone-reserved-identifier)
void __libc_free(void* pointer);   // NOLINT(bugprone-reserved-identifier)

}  // extern "C"

namespace {

constexpr size_t kSizes[] = {8, 100, 1000, 10'000, 100'000, 1'000'000};
constexpr double kMost = 1.2;  // shim / malloc

enum Side { kShim, kMalloc, kWrapper, kLibrary, kGlibc, kSides };
constexpr const char* kNames[kSides] = {"shim", "malloc", "wrapper", "library", "glibc"};

struct Mpi {
  const char* name;
  const char* file;
  void* library = nullptr;
  uintptr_t null_info = 0;
  int (*alloc_mem)(ptrdiff_t, uintptr_t, void*) = nullptr;
  int (*free_mem)(void*) = nullptr;
  int (*init)(void*, void*) = nullptr;
  int (*finalize)() = nullptr;
};

Mpi mpi;

template <typename Function>
void find(const char* name, Function* out) {
  *out = reinterpret_cast<Function>(dlsym(mpi.library, name));
}

bool load_mpi() {
  const char* wanted = getenv("BENCH_MPI");
  for (const Mpi& known : {Mpi{"openmpi", "libmpi.so.40"}, Mpi{"mpich", "libmpich.so.12"}}) {
    if (wanted != nullptr && strcmp(wanted, known.name) != 0) continue;
    mpi = known;
    mpi.library = dlopen(known.file, RTLD_NOW | RTLD_GLOBAL);
    if (mpi.library != nullptr) break;
  }
  if (mpi.library == nullptr) return false;
  void* null_info = dlsym(mpi.library, "ompi_mpi_info_null");
  constexpr uintptr_t kMpichNullInfo = 0x1c000000;
  mpi.null_info = null_info != nullptr ? reinterpret_cast<uintptr_t>(null_info) : kMpichNullInfo;
  find("PMPI_Alloc_mem", &mpi.alloc_mem);
  find("PMPI_Free_mem", &mpi.free_mem);
  find("MPI_Init", &mpi.init);
  find("MPI_Finalize", &mpi.finalize);
  return true;
}

double cpu_ns() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
}

// How a block is used: its first byte is written, or all of them are, as in a program that sends
// it.
enum Use { kTouched, kWritten, kUses };
constexpr const char* kUseNames[kUses] = {"touched", "written"};

// CPU time of one pair in ns, including the use of the block.
template <typename Allocate, typename Release>
[[gnu::noinline]] Slice pairs(size_t written, const Allocate& allocate, const Release& release) {
  constexpr int kChunk = 1000;
  const double time = is_short_form() ? 2e5 : 4e6;
  for (int i = 0; i < kChunk; ++i) release(allocate());
  const double start = cpu_ns();
  double took = 0;
  double count = 0;
  while (took < time) {
    for (int i = 0; i < kChunk; ++i) {
      void* memory = allocate();
      if (written != 0) memset(memory, 1, written);
      *static_cast<volatile char*>(memory) = 1;
      release(memory);
    }
    count += kChunk;
    took = cpu_ns() - start;
  }
  return {took / count};
}

Slice slice(size_t side, size_t size, Use use) {
  const auto count = static_cast<ptrdiff_t>(size);
  const size_t written = use == kWritten ? size : 0;
  switch (side) {
    case kShim:
      return pairs(
          written,
          [=, info = mpi.null_info] {
            void* memory = nullptr;
            MPI_Alloc_mem(count, info, &memory);
            return memory;
          },
          [](void* memory) { MPI_Free_mem(memory); });
    case kMalloc:
      return pairs(
          written, [=] { return malloc(size); }, [](void* memory) { free(memory); });
    case kWrapper:
      return pairs(
          written,
          [=, info = mpi.null_info] {
            void* memory = nullptr;
            bench_wrapped_alloc(count, info, &memory);
            return memory;
          },
          [](void* memory) { bench_wrapped_free(memory); });
    case kLibrary:
      return pairs(
          written,
          [=] {
            void* memory = nullptr;
            mpi.alloc_mem(count, mpi.null_info, &memory);
            return memory;
          },
          [](void* memory) { mpi.free_mem(memory); });
    default:
      return pairs(
          written, [=] { return __libc_malloc(size); }, [](void* memory) { __libc_free(memory); });
  }
}

// A list, because Google Benchmark keeps references.
struct Case {
  Use use;
  size_t size;
  Contest contest = {};
};
std::list<Case> cases;

void add_cases(Use use) {
  for (const size_t size : kSizes) {
    Contest& added = cases.emplace_back(Case{use, size}).contest;
    added.name =
        std::string("mpi_alloc/") + mpi.name + "/" + kUseNames[use] + "/" + std::to_string(size);
    added.sides.assign(kNames, kNames + kSides);
    added.rounds = rounds(51);
    added.slice = [use, size](size_t side) { return slice(side, size, use); };
    add(added, kShim);
  }
}

void print_table() {
  printf("\nCPU ns of a pair, %s\n%-8s %8s", mpi.name, "block", "bytes");
  for (const char* name : kNames) printf(" %9s", name);
  printf("  shim/malloc  shim/wrapper  shim/glibc  library/shim\n");
  for (const Case& what : cases) {
    const Contest& contest = what.contest;
    if (contest.measured.empty()) continue;
    printf("%-8s %8zu", kUseNames[what.use], what.size);
    for (size_t side = 0; side < kSides; ++side) printf(" %9.1f", contest.time(side));
    printf(" %12.3f %13.3f %11.2f %13.2f\n", contest.ratio(kShim, kMalloc),
           contest.ratio(kShim, kWrapper), contest.ratio(kShim, kGlibc),
           contest.ratio(kLibrary, kShim));
  }
}

bool judge_uses() {
  bool met = true;
  for (const Use use : {kTouched, kWritten}) {
    std::vector<double> ratios;
    for (const Case& what : cases) {
      if (what.use != use || what.contest.measured.empty()) continue;
      ratios.push_back(what.contest.ratio(kShim, kMalloc));
    }
    const std::string title = "MPI_Alloc_mem + MPI_Free_mem / malloc + free, ";
    met = judge(title + kUseNames[use], ratios, Limit::kAtMost, kMost) && met;
  }
  return met;
}

// Whether the shim serves the calls; otherwise its figures would be another library's.
bool is_served() {
  void* memory = nullptr;
  const bool allocated = MPI_Alloc_mem(1, mpi.null_info, &memory) == 0;
  Dl_info where{};
  const bool shim = dladdr(reinterpret_cast<void*>(&MPI_Alloc_mem), &where) != 0 &&
                    strstr(where.dli_fname, "rdmalloc-mpi") != nullptr;
  const bool ours = allocated && rdm_owns(memory) != 0;
  if (allocated) MPI_Free_mem(memory);
  return shim && ours;
}

}  // namespace

int main(int argc, char** argv) {
  if (!load_mpi()) {
    fprintf(stderr, "skipped: no MPI library: apt-get install libopenmpi3, or libmpich12\n");
    return kSkipped;
  }
  mpi.init(nullptr, nullptr);
  if (!is_served()) {
    fprintf(stderr, "MPI_Alloc_mem is not served by librdmalloc-mpi.so\n");
    return EXIT_FAILURE;
  }
  for (const Use use : {kTouched, kWritten}) add_cases(use);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return EXIT_FAILURE;
  benchmark::RunSpecifiedBenchmarks();
  print_table();
  const bool met = judge_uses();
  mpi.finalize();
  if (is_short_form()) printf("short form: the figures above mean nothing\n");
  return met || is_short_form() ? EXIT_SUCCESS : EXIT_FAILURE;
}
