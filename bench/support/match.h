// One piece of work done by several sides in turns: each round starts a child for every side, one
// right after the other, beginning with a different side than the round before, so that
// disturbances on the machine affect all. Figures are medians of the rounds; ratios are medians of
// the rounds' ratios.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "bench/support/child.h"

namespace rdmalloc::bench {

// A figure taken from a child's outcome; negative: it is missing.
using Figure = std::function<double(const Outcome&)>;

// The number that the child printed after the key, in units of `unit`.
Figure said(const std::string& key, double unit = 1);

struct Side {
  std::string name;
  std::function<Outcome()> run;
};

// A side that runs a command under an allocator.
Side side_of(const Allocator& allocator, const std::vector<std::string>& command,
             const std::vector<std::string>& environment = {});

struct Match {
  std::string name;  // group/case
  std::vector<Side> sides;
  int rounds = 1;
  std::vector<std::vector<Outcome>> outcomes = {};  // indexed by round, then side

  // False if a child failed; the round then does not count.
  bool measure();
  bool was_run() const { return !outcomes.empty(); }
  // The side's index; sides.size() if there is none of this name.
  size_t find(const std::string& side) const;
  double figure(size_t side, const Figure& figure) const;
  double ratio(size_t side, size_t of, const Figure& figure) const;
  // The side with the lowest figure among those for which `counts` is true; sides.size() if there
  // is none.
  size_t lowest(const Figure& figure, const std::function<bool(const Side&)>& counts) const;
};

// Makes it a Google Benchmark whose time is the first side's figure, in nanoseconds, with a counter
// for each side. The match must outlive the run.
void add(Match& match, const Figure& nanoseconds);

// Runs Google Benchmark with the program's arguments. False if these are wrong or a child failed.
bool run_matches(int argc, char** argv);

// The exit status: 1 if something failed or, except in the short form, a bar was missed.
int status_of(bool ran, bool met);

}  // namespace rdmalloc::bench
