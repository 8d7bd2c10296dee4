// Acquiring pinned memory: malloc of one large block on a fresh heap against the bare system calls
// that it cannot do without (map, populate, lock), of the same size and page kind.
#include <stdio.h>
#include <stdlib.h>

#include <fstream>

#include "bench/support/comparison.h"

using namespace rdmalloc::bench;

namespace {

// Ours may not fall below 0.9 of their bytes per second.
constexpr double kLargestRatio = 1 / 0.9;

// Fails when the heap did not do all of the work: then there is nothing to compare.
Measure ours_cost(const std::string& bytes, const std::string& kind) {
  return [=]() -> Cost {
    const Outcome outcome = run(workload({"acquire", bytes, kind}), ours(),
                                {"RDMALLOC_HUGE=" + (kind == "4K" ? "off" : kind)});
    const double size = strtod(bytes.c_str(), nullptr);
    const bool huge = outcome.number("huge") >= size;
    if (!outcome.started || outcome.number("pinned") < size || huge != (kind != "4K")) return {};
    return {outcome.number("cpu_ns") * 1e-9, outcome.number("wall_ns") * 1e-9};
  };
}

bool has_hugetlb_pages(size_t bytes) {
  std::ifstream file("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages");
  size_t pages = 0;
  return (file >> pages) && pages >= (bytes >> 21) + 1;
}

void compare(size_t mebibytes, const std::string& kind) {
  const std::string bytes = std::to_string(mebibytes << 20);
  if (kind == "hugetlb" && !has_hugetlb_pages(mebibytes << 20)) {
    fprintf(stderr, "skipped: %zuM/hugetlb: the pool has no %zu free pages of 2 MiB\n", mebibytes,
            mebibytes / 2 + 1);
    return;
  }
  add({.name = "acquire/" + std::to_string(mebibytes) + "M/" + kind,
       .peer = "bare calls",
       .ours = ours_cost(bytes, kind),
       .theirs = workload_cost({"acquire_bare", bytes, kind}, glibc()),
       .rounds = rounds(mebibytes > 256 ? 9 : 15),
       .at_most = kLargestRatio});
}

// For the reader: the same as bytes per second of wall time, and the heap's own count of it.
void print_speed(size_t mebibytes, const std::string& kind) {
  const Outcome outcome = run(workload({"acquire", std::to_string(mebibytes << 20), kind}), ours(),
                              {"RDMALLOC_HUGE=" + (kind == "4K" ? "off" : kind)});
  const double bytes = static_cast<double>(mebibytes << 20);
  printf("%zuM/%s: %.2f GB/s by wall time around malloc, %.2f GB/s by acquire_ns\n", mebibytes,
         kind.c_str(), bytes / outcome.number("wall_ns"), bytes / outcome.number("acquire_ns"));
}

}  // namespace

int main(int argc, char** argv) {
  if (!is_usable(ours())) return EXIT_FAILURE;
  const std::vector<size_t> sizes =
      is_short_form() ? std::vector<size_t>{64} : std::vector<size_t>{64, 256, 1024};
  for (const char* kind : {"4K", "thp", "hugetlb"}) {
    for (const size_t mebibytes : sizes) compare(mebibytes, kind);
  }
  const int status = run_all(argc, argv);
  for (const char* kind : {"4K", "thp"}) print_speed(sizes.back(), kind);
  return status;
}
