#include "bench/support/match.h"

#include <benchmark/benchmark.h>
#include <stdio.h>
#include <stdlib.h>

#include <algorithm>

#include "bench/support/median.h"

namespace rdmalloc::bench {
namespace {

bool child_failed = false;

void iterate(benchmark::State& state, Match& match, const Figure& nanoseconds) {
  for (auto unused : state) {
    (void)unused;
    if (!match.measure()) {
      child_failed = true;
      state.SkipWithError("a child failed");
      return;
    }
    state.SetIterationTime(nanoseconds(match.outcomes.back()[0]) * 1e-9);
  }
  for (size_t side = 0; side < match.sides.size(); ++side) {
    state.counters[match.sides[side].name] = match.figure(side, nanoseconds);
  }
}

}  // namespace

Figure said(const std::string& key, double unit) {
  return [=](const Outcome& outcome) { return outcome.number(key) / unit; };
}

Side side_of(const Allocator& allocator, const std::vector<std::string>& command,
             const std::vector<std::string>& environment) {
  return {allocator.name, [=] { return run(command, allocator, environment); }};
}

bool Match::measure() {
  std::vector<Outcome> round(sides.size());
  for (size_t i = 0; i < sides.size(); ++i) {
    const size_t side = (i + outcomes.size()) % sides.size();
    round[side] = sides[side].run();
    if (round[side].started) continue;
    fprintf(stderr, "%s: %s: the child failed\n", name.c_str(), sides[side].name.c_str());
    return false;
  }
  outcomes.push_back(std::move(round));
  return true;
}

size_t Match::find(const std::string& side) const {
  const auto found =
      std::find_if(sides.begin(), sides.end(), [&](const Side& one) { return one.name == side; });
  return static_cast<size_t>(found - sides.begin());
}

double Match::figure(size_t side, const Figure& figure) const {
  std::vector<double> values;
  for (const auto& round : outcomes) values.push_back(figure(round[side]));
  return median(values);
}

double Match::ratio(size_t side, size_t of, const Figure& figure) const {
  std::vector<double> values;
  for (const auto& round : outcomes) values.push_back(figure(round[side]) / figure(round[of]));
  return median(values);
}

size_t Match::lowest(const Figure& figure, const std::function<bool(const Side&)>& counts) const {
  size_t best = sides.size();
  for (size_t side = 0; side < sides.size(); ++side) {
    if (!counts(sides[side])) continue;
    if (best == sides.size() || this->figure(side, figure) < this->figure(best, figure)) {
      best = side;
    }
  }
  return best;
}

void add(Match& match, const Figure& nanoseconds) {
  benchmark::RegisterBenchmark(
      match.name.c_str(),
      [&match, nanoseconds](benchmark::State& state) { iterate(state, match, nanoseconds); })
      ->UseManualTime()
      ->Iterations(match.rounds)
      ->Unit(benchmark::kNanosecond);
}

bool run_matches(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return false;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return !child_failed;
}

int status_of(bool ran, bool met) {
  if (is_short_form()) printf("short form: the figures above mean nothing\n");
  return ran && (met || is_short_form()) ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace rdmalloc::bench
