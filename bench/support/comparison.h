// A comparison is a Google Benchmark whose every iteration runs both sides, one right after the
// other, so that what else happens on the machine happens to both. It is judged by the median of
// the iterations' ratios.
#pragma once

#include <functional>
#include <string>

#include "bench/support/child.h"

namespace rdmalloc::bench {

// What one run of one side cost. Negative: it failed.
struct Cost {
  double cpu_s = -1;
  double wall_s = -1;
};

using Measure = std::function<Cost()>;

struct Comparison {
  std::string name;  // group/case
  std::string peer;
  Measure ours;
  Measure theirs;
  int rounds = 1;
  double at_most = 0;   // bar on ours / theirs; 0: for information
  bool in_mean = true;  // part of the peer's geometric mean
};

// Before run_all().
void add(Comparison comparison);

// Bar on the geometric mean of all comparisons with this peer; without one it is printed for
// information.
void set_mean_bar(const std::string& peer, double at_most);

// What bench_workload with these arguments says it cost under this allocator: the measured part of
// it, without the start of the process.
Measure workload_cost(const std::vector<std::string>& arguments, const Allocator& allocator,
                      const std::vector<std::string>& environment = {});

// Runs Google Benchmark with the program's arguments, then prints the table of ratios, bars and
// geometric means. Returns the exit status: 1 when a child failed, or, but not in the short form,
// when a bar was missed.
int run_all(int argc, char** argv);

}  // namespace rdmalloc::bench
