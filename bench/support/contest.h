// Several ways to do the same thing, timed in turns: every round runs a slice of each, one right
// after the other and in a different order than the round before, so that disturbances on the
// machine affect all. Figures are medians of the rounds; ratios are medians of the rounds' ratios.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace rdmalloc::bench {

struct Slice {
  double ns = 0;            // per unit of whatever the contest counts
  bool undisturbed = true;  // by other programs
};

struct Contest {
  std::string name;  // group/case
  std::vector<std::string> sides;
  std::function<Slice(size_t side)> slice;
  int rounds = 1;

  struct Round {
    std::vector<double> ns;  // one per side
    bool undisturbed = true;
  };
  std::vector<Round> measured = {};

  void measure();
  double time(size_t side) const;
  double ratio(size_t side, size_t of) const;
  size_t disturbed() const;
  // The median over the undisturbed rounds, or over all if there are none.
  double median_of(const std::function<double(const Round&)>& figure) const;
};

// Makes it a Google Benchmark whose time is that of the side `timed`, with a counter ns_SIDE for
// each side. The contest must outlive the run.
void add(Contest& contest, size_t timed);

enum class Limit { kAtLeast, kAtMost };

// Prints the worst of the values, and whether it is within the limit; no values satisfy every
// limit.
bool judge(const std::string& what, const std::vector<double>& values, Limit limit, double bar);

}  // namespace rdmalloc::bench
