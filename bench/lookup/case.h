// What is measured in bench_lookup, and what came out.
#pragma once

#include <algorithm>
#include <functional>
#include <vector>

#include "bench/lookup/race.h"
#include "bench/support/median.h"

namespace rdmalloc::bench {

// Ways of finding a key, from the cheapest.
enum Subject { kArray, kCall, kTable, kInline, kLookup, kMap, kUcx, kSubjects };
constexpr const char* kNames[kSubjects] = {"array",      "call", "table", "inline",
                                           "rdm_lookup", "map",  "UCX"};

struct Round {
  double ns[kSubjects] = {};
  bool undisturbed = true;
};

struct Case {
  Mode mode = Mode::kThroughput;
  size_t threads = 0;
  size_t count = 0;
  std::function<Slice(Subject)> slice;
  std::vector<Round> rounds;

  // The median of a figure of each round; of those that other programs did not disturb, if any.
  double median_of(const std::function<double(const Round&)>& figure) const {
    std::vector<double> all;
    std::vector<double> undisturbed;
    for (const Round& round : rounds) {
      all.push_back(figure(round));
      if (round.undisturbed) undisturbed.push_back(all.back());
    }
    return median(undisturbed.empty() ? all : undisturbed);
  }
  double time(Subject subject) const {
    return median_of([=](const Round& round) { return round.ns[subject]; });
  }
  double ratio(Subject subject, Subject of) const {
    return median_of([=](const Round& round) { return round.ns[subject] / round.ns[of]; });
  }
  size_t disturbed() const {
    return static_cast<size_t>(std::count_if(
        rounds.begin(), rounds.end(), [](const Round& round) { return !round.undisturbed; }));
  }
};

}  // namespace rdmalloc::bench
