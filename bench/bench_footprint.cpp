// Peak of what is held over peak of what is live, for each pattern and allocator: what never giving
// memory back costs, beside allocators that give it back. Held is resident memory above the start
// of the process; for us what the regions hold, if that is more.
#include <benchmark/benchmark.h>
#include <stdio.h>
#include <stdlib.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>

#include "bench/support/child.h"

using namespace rdmalloc::bench;

namespace {

constexpr double kLargestMean = 1.50;
constexpr double kLargestRatio = 1.80;
// The patterns under the bar, and one that defeats every allocator here (README.md).
const std::string kPatterns = "vmpLds";
const std::string kForInformation = "r";

using Row = std::map<char, double>;  // pattern -> ratio

struct Measured {
  const Allocator& allocator;
  Row row;
};
std::deque<Measured> table;

double ratio_of(const Outcome& outcome) {
  const double held = std::max(outcome.number("peak_resident"), outcome.number("peak_held"));
  return outcome.started ? held / outcome.number("peak_live") : NAN;
}

void measure(benchmark::State& state, Measured& measured, char pattern) {
  const auto command = sibling("bench_footprint_workload", {std::string(1, pattern)});
  for (auto _ : state) {
    const Outcome outcome = run(command, measured.allocator);
    if (!outcome.started) state.SkipWithError("the workload failed");
    measured.row[pattern] = ratio_of(outcome);
    state.SetIterationTime(outcome.cpu_s);
    state.counters["live_MiB"] = outcome.number("peak_live") / (1 << 20);
    state.counters["held/live"] = measured.row[pattern];
    state.counters["regions"] = outcome.number("regions");
  }
}

void add_row(const Allocator& allocator, const std::string& patterns) {
  Measured& measured = table.emplace_back(Measured{allocator, {}});
  for (const char pattern : patterns) {
    const std::string name = "footprint/" + std::string(1, pattern) + "/" + allocator.name;
    benchmark::RegisterBenchmark(
        name.c_str(),
        [&measured, pattern](benchmark::State& state) { measure(state, measured, pattern); })
        ->UseManualTime()
        ->Iterations(1)
        ->Unit(benchmark::kMillisecond);
  }
}

double geometric_mean(const Row& row) {
  double sum = 0;
  int count = 0;
  for (const auto& [pattern, ratio] : row) {
    if (kForInformation.find(pattern) != std::string::npos) continue;
    sum += std::log(ratio);
    ++count;
  }
  return count == 0 ? NAN : std::exp(sum / count);
}

double largest(const Row& row) {
  double most = 0;
  for (const auto& [pattern, ratio] : row) {
    if (kForInformation.find(pattern) == std::string::npos) most = std::max(most, ratio);
  }
  return most;
}

// True when our row is within the bars.
bool print_table() {
  printf("\npeak held / peak live\n%-12s", "");
  for (const char pattern : kPatterns + kForInformation) printf("%7c", pattern);
  printf("%9s\n", "mean");
  bool met = true;
  for (const Measured& measured : table) {
    printf("%-12s", measured.allocator.name.c_str());
    for (const char pattern : kPatterns + kForInformation) {
      const auto found = measured.row.find(pattern);
      printf("%7.2f", found == measured.row.end() ? NAN : found->second);
    }
    const double mean = geometric_mean(measured.row);
    printf("%9.3f\n", mean);
    if (&measured.allocator != &ours()) continue;
    met = mean <= kLargestMean && largest(measured.row) <= kLargestRatio;
  }
  printf("bars on us, without %s: mean %.2f, each %.2f: %s\n", kForInformation.c_str(),
         kLargestMean, kLargestRatio, met ? "met" : "MISSED");
  return met;
}

}  // namespace

int main(int argc, char** argv) {
  if (!is_usable(ours())) return EXIT_FAILURE;
  if (is_short_form()) {
    add_row(ours(), "vs");
  } else {
    add_row(ours(), kPatterns + kForInformation);
    add_row(glibc(), kPatterns + kForInformation);
    for (const Allocator& peer : peers()) {
      if (peer.name != glibc().name) add_row(peer, kPatterns + kForInformation);
    }
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return EXIT_FAILURE;
  benchmark::RunSpecifiedBenchmarks();
  const bool met = print_table();
  return met || is_short_form() ? EXIT_SUCCESS : EXIT_FAILURE;
}
