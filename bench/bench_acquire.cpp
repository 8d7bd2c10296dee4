// Acquiring pinned memory: malloc of one large block on a fresh heap, including its pages, against
// the bare system calls that this takes at least (map, populate, lock), for the same size and page
// kind.
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

Outcome run_ours(const std::string& bytes, const std::string& kind) {
  return run(workload({"acquire", bytes, kind}), ours(),
             {huge_option(kind), "RDMALLOC_POPULATE=now"});
}

// Fails if the heap did not do all of the work: there is nothing to compare then.
Measure ours_cost(const std::string& bytes, const std::string& kind) {
  return [=]() -> Cost {
    const Outcome outcome = run_ours(bytes, kind);
    const double size = strtod(bytes.c_str(), nullptr);
    const bool huge = outcome.number("huge") >= size;
    if (!outcome.started || outcome.number("pinned") < size || huge != (kind != "4K")) return {};
    return {outcome.number("cpu_ns") * 1e-9, outcome.number("wall_ns") * 1e-9};
  };
}

void compare(size_t mebibytes, const std::string& kind) {
  const std::string bytes = std::to_string(mebibytes << 20);
  if (!has_pages(kind, mebibytes << 20)) return;
  add({.name = "acquire/" + std::to_string(mebibytes) + "M/" + kind,
       .peer = "bare calls",
       .ours = ours_cost(bytes, kind),
       .theirs = workload_cost({"acquire_bare", bytes, kind}, glibc()),
       .rounds = rounds(mebibytes > 256 ? 9 : 15),
       .at_most = kLargestRatio});
}

// For information: the same as bytes per second of wall time, and the heap's own measure of it.
void print_speed(size_t mebibytes, const std::string& kind) {
  const Outcome outcome = run_ours(std::to_string(mebibytes << 20), kind);
  const double bytes = static_cast<double>(mebibytes << 20);
  printf("%zuM/%s: %.2f GB/s by wall time around malloc, %.2f GB/s by acquire_ns\n", mebibytes,
         kind.c_str(), bytes / outcome.number("wall_ns"), bytes / outcome.number("acquire_ns"));
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
  return status;
}
