// Memory that a device may use: malloc of one large block on a fresh heap with a domain open on an
// io_uring, until all its keys exist, against the bare system calls (map, populate, lock, register)
// for the same size and page kind. Also counts the memory regions of a grown heap.
#include <stdio.h>
#include <stdlib.h>

#include "bench/support/can_lock.h"
#include "bench/support/comparison.h"
#include "bench/support/page_kind.h"

using namespace rdmalloc::bench;

namespace {

constexpr size_t kLocked = size_t{2} << 30;

// Ours must reach at least 0.9 of their bytes per second.
constexpr double kLargestRatio = 1 / 0.9;
constexpr double kMostForDoubling = 64;
constexpr double kMostForBuffers = 100;

// The whole block in new pages, as with the bare calls.
Outcome run_ours(const std::string& bytes, const std::string& kind) {
  return run(sibling("bench_device_workload", {"register", bytes, kind}), ours(),
             {huge_option(kind), "RDMALLOC_GATHER=off"});
}

// Fails if the heap did not do all of the work: there is nothing to compare then.
Measure ours_cost(const std::string& bytes, const std::string& kind) {
  return [=]() -> Cost {
    const Outcome outcome = run_ours(bytes, kind);
    const double size = strtod(bytes.c_str(), nullptr);
    const bool huge = outcome.number("huge") >= size;
    if (!outcome.started || outcome.number("pinned") < size ||
        outcome.number("registered ") < size || huge != (kind != "4K")) {
      return {};
    }
    return {outcome.number("cpu_ns") * 1e-9, outcome.number("wall_ns") * 1e-9};
  };
}

Measure bare_cost(const std::string& bytes, const std::string& kind) {
  return [=]() -> Cost {
    const Outcome outcome =
        run(sibling("bench_device_workload", {"register_bare", bytes, kind}), glibc());
    if (!outcome.started) return {};
    return {outcome.number("cpu_ns") * 1e-9, outcome.number("wall_ns") * 1e-9};
  };
}

void compare(size_t mebibytes, const std::string& kind) {
  if (!has_pages(kind, mebibytes << 20)) return;
  const std::string bytes = std::to_string(mebibytes << 20);
  add({.name = "register/" + std::to_string(mebibytes) + "M/" + kind,
       .peer = "bare calls",
       .ours = ours_cost(bytes, kind),
       .theirs = bare_cost(bytes, kind),
       .rounds = rounds(mebibytes > 256 ? 9 : 15),
       .at_most = kLargestRatio});
}

void print_speed(size_t mebibytes, const std::string& kind) {
  const Outcome outcome = run_ours(std::to_string(mebibytes << 20), kind);
  if (!outcome.started) return;
  const double bytes = static_cast<double>(mebibytes << 20);
  printf("%zuM/%s: %.2f GB/s by wall time, registering alone %.1f GB/s\n", mebibytes, kind.c_str(),
         bytes / outcome.number("wall_ns"), bytes / outcome.number("registration_ns"));
}

// True if within the bar. The unit test region_count tests the bar's full 16 GiB, without pages.
bool print_count(const char* what, const std::string& amount, const char* kind, double at_most) {
  const Outcome outcome = run(sibling("bench_device_workload", {"count", amount, kind}), ours());
  const double count = outcome.number("memory_regions");
  // Memory that is not pinned is not registered either, and would reduce the count.
  const bool all = outcome.started && outcome.number("pinned") == outcome.number("held");
  const bool met = all && count > 0 && count < at_most;
  printf("memory regions for %s: %.0f, in a heap of %.0f MiB; bar below %.0f %s\n", what, count,
         outcome.number("held") / (1 << 20), at_most,
         met   ? "met"
         : all ? "MISSED"
               : "MISSED: not all of it is pinned");
  return met;
}

}  // namespace

int main(int argc, char** argv) {
  if (!is_usable(ours())) return EXIT_FAILURE;
  if (!can_lock(kLocked)) return kSkipped;
  const std::vector<size_t> sizes =
      is_short_form() ? std::vector<size_t>{64} : std::vector<size_t>{64, 256, 1024};
  for (const char* kind : {"4K", "thp", "hugetlb"}) {
    for (const size_t mebibytes : sizes) compare(mebibytes, kind);
  }
  const int status = run_all(argc, argv);
  for (const char* kind : {"4K", "thp"}) print_speed(sizes.back(), kind);
  const bool doubling = print_count("two vectors grown by doubling to 256 MiB each", "268435456",
                                    "doubling", kMostForDoubling);
  const bool buffers =
      print_count("a million buffers of 16 B to 1 KiB", "1000000", "buffers", kMostForBuffers);
  return doubling && buffers ? status : EXIT_FAILURE;
}
