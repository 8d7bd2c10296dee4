// Peak resident memory divided by peak live memory, for each pattern and allocator. Resident memory
// is the process's peak minus what it had when the pattern started.
#include <benchmark/benchmark.h>
#include <stdio.h>
#include <stdlib.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>

#include "bench/support/child.h"
#include "bench/support/contest.h"

using namespace rdmalloc::bench;

namespace {

// Patterns judged by their mean; patterns with their own bars; and one that defeats every allocator
// here, for information (README.md).
const std::string kMeanPatterns = "vmpLds";
const std::map<char, double> kHardPatterns = {{'V', 1.08}, {'M', 1.08}, {'P', 1.30}, {'B', 1.08}};
const std::string kForInformation = "r";
constexpr double kLargestMean = 1.15;
constexpr double kLargestAgainstBest = 1.05;

using Row = std::map<char, double>;  // pattern -> ratio

struct Measured {
  Allocator allocator;
  Row row = {};
};
std::deque<Measured> table;  // ours is first

bool is_barred(char pattern) { return kForInformation.find(pattern) == std::string::npos; }

std::string all_patterns() {
  std::string all = kMeanPatterns;
  for (const auto& [pattern, bar] : kHardPatterns) all += pattern;
  return all + kForInformation;
}

void measure(benchmark::State& state, Measured& measured, char pattern) {
  const auto command = sibling("bench_footprint_workload", {std::string(1, pattern)});
  for (auto _ : state) {
    const Outcome outcome = run(command, measured.allocator);
    if (!outcome.started) {
      state.SkipWithError("the workload failed");
      return;
    }
    const double ratio = outcome.number("peak_resident") / outcome.number("peak_live");
    measured.row[pattern] = ratio;
    state.SetIterationTime(outcome.cpu_s);
    state.counters["live_MiB"] = outcome.number("peak_live") / (1 << 20);
    state.counters["resident/live"] = ratio;
    state.counters["regions"] = outcome.number("regions");
  }
}

void add_row(const Allocator& allocator, const std::string& patterns) {
  Measured& measured = table.emplace_back(Measured{allocator});
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

// NAN while any of them is missing.
double geometric_mean(const Row& row, const std::string& patterns) {
  double sum = 0;
  for (const char pattern : patterns) {
    const auto found = row.find(pattern);
    sum += found == row.end() ? NAN : std::log(found->second);
  }
  return std::exp(sum / static_cast<double>(patterns.size()));
}

void print_table() {
  printf("\npeak resident / peak live\n%-12s", "");
  for (const char pattern : all_patterns()) printf("%7c", pattern);
  printf("  mean of %s\n", kMeanPatterns.c_str());
  for (const Measured& measured : table) {
    printf("%-12s", measured.allocator.name.c_str());
    for (const char pattern : all_patterns()) {
      const auto found = measured.row.find(pattern);
      printf("%7.2f", found == measured.row.end() ? NAN : found->second);
    }
    printf("%9.3f\n", geometric_mean(measured.row, kMeanPatterns));
  }
  printf("\n");
}

bool judge_best(char pattern, double ours) {
  const Measured* best = nullptr;
  for (const Measured& peer : table) {
    if (&peer == &table.front() || !peer.row.contains(pattern)) continue;
    if (best == nullptr || peer.row.at(pattern) < best->row.at(pattern)) best = &peer;
  }
  if (best == nullptr) return true;
  return judge("footprint/" + std::string(1, pattern) + ": against " + best->allocator.name,
               {ours / best->row.at(pattern)}, Limit::kAtMost, kLargestAgainstBest);
}

// True if our row meets the bars, as far as it was measured.
bool judge_row(const Row& row) {
  bool met = true;
  for (const auto& [pattern, ratio] : row) {
    if (!is_barred(pattern)) continue;
    const auto own = kHardPatterns.find(pattern);
    if (own != kHardPatterns.end()) {
      met &= judge("footprint/" + std::string(1, pattern), {ratio}, Limit::kAtMost, own->second);
    }
    met &= judge_best(pattern, ratio);
  }
  const double mean = geometric_mean(row, kMeanPatterns);
  if (std::isnan(mean)) return met;
  return judge("footprint: mean of " + kMeanPatterns, {mean}, Limit::kAtMost, kLargestMean) && met;
}

}  // namespace

int main(int argc, char** argv) {
  if (!is_usable(ours())) return EXIT_FAILURE;
  if (is_short_form()) {
    add_row(ours(), "vsV");
  } else {
    add_row(ours(), all_patterns());
    for (const Allocator& peer : peers_and_tuned()) add_row(peer, all_patterns());
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return EXIT_FAILURE;
  benchmark::RunSpecifiedBenchmarks();
  print_table();
  const bool met = judge_row(table.front().row);
  if (is_short_form()) printf("short form: one round, without the peers\n");
  return met || is_short_form() ? EXIT_SUCCESS : EXIT_FAILURE;
}
