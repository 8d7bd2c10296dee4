// A comparison is a Google Benchmark whose every iteration runs both sides, one right after the
// other, so that disturbances on the machine affect both. It is judged by the median of the
// iterations' ratios.
#pragma once

#include <functional>
#include <string>

#include "bench/support/child.h"

namespace rdmalloc::bench {

// The cost of one run of one side. Negative: it failed.
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
  double at_most = 0;   // bar on ours / theirs; 0: for information only
  bool in_mean = true;  // part of the peer's geometric mean
};

// Call before run_all().
void add(Comparison comparison);

// Sets the bar on the geometric mean of all comparisons with this peer; without one, the mean is
// printed for information.
void set_mean_bar(const std::string& peer, double at_most);

// What bench_workload reports with these arguments under this allocator: the cost of the measured
// part, without process start-up.
Measure workload_cost(const std::vector<std::string>& arguments, const Allocator& allocator,
                      const std::vector<std::string>& environment = {});

// Runs Google Benchmark with the program's arguments, then prints the table of ratios, bars and
// geometric means. Returns the exit status: 1 if a child failed or, except in the short form, if a
// bar was missed.
int run_all(int argc, char** argv);

}  // namespace rdmalloc::bench
