#include "bench/support/contest.h"

#include <benchmark/benchmark.h>
#include <stdio.h>

#include <algorithm>

#include "bench/support/median.h"

namespace rdmalloc::bench {
namespace {

void iterate(benchmark::State& state, Contest& contest, size_t timed) {
  for (auto unused : state) {
    (void)unused;
    contest.measure();
    state.SetIterationTime(contest.measured.back().ns[timed] * 1e-9);
  }
  for (size_t side = 0; side < contest.sides.size(); ++side) {
    state.counters["ns_" + contest.sides[side]] = contest.time(side);
  }
}

}  // namespace

void Contest::measure() {
  Round round;
  round.ns.resize(sides.size());
  for (size_t i = 0; i < sides.size(); ++i) {
    const size_t side = (i + measured.size()) % sides.size();
    const Slice got = slice(side);
    round.ns[side] = got.ns;
    round.undisturbed = round.undisturbed && got.undisturbed;
  }
  measured.push_back(std::move(round));
}

double Contest::median_of(const std::function<double(const Round&)>& figure) const {
  std::vector<double> all;
  std::vector<double> undisturbed;
  for (const Round& round : measured) {
    all.push_back(figure(round));
    if (round.undisturbed) undisturbed.push_back(all.back());
  }
  return median(undisturbed.empty() ? all : undisturbed);
}

double Contest::time(size_t side) const {
  return median_of([=](const Round& round) { return round.ns[side]; });
}

double Contest::ratio(size_t side, size_t of) const {
  return median_of([=](const Round& round) { return round.ns[side] / round.ns[of]; });
}

size_t Contest::disturbed() const {
  return static_cast<size_t>(std::count_if(measured.begin(), measured.end(),
                                           [](const Round& round) { return !round.undisturbed; }));
}

void add(Contest& contest, size_t timed) {
  benchmark::RegisterBenchmark(
      contest.name.c_str(),
      [&contest, timed](benchmark::State& state) { iterate(state, contest, timed); })
      ->UseManualTime()
      ->Iterations(contest.rounds)
      ->Unit(benchmark::kNanosecond);
}

bool judge(const std::string& what, const std::vector<double>& values, Limit limit, double bar) {
  if (values.empty()) return true;
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  const bool at_least = limit == Limit::kAtLeast;
  const double worst = at_least ? *least : *most;
  const bool met = at_least ? worst >= bar : worst <= bar;
  printf("%-58s worst %8.2f  bar %s %-6.4g %s\n", what.c_str(), worst, at_least ? ">=" : "<=", bar,
         met ? "met" : "MISSED");
  return met;
}

}  // namespace rdmalloc::bench
