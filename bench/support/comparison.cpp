#include "bench/support/comparison.h"

#include <benchmark/benchmark.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmath>
#include <list>
#include <map>
#include <vector>

#include "bench/support/median.h"

namespace rdmalloc::bench {
namespace {

struct Entry {
  Comparison what;
  std::vector<double> ours;
  std::vector<double> theirs;
  std::vector<double> ratios;
  std::vector<double> wall_ours;
  std::vector<double> wall_theirs;
};

// A list, because Google Benchmark keeps references.
std::list<Entry> entries;
std::map<std::string, double> mean_bars;
bool child_failed = false;

// Alternates the order: a run may leave the machine warmer, or with less free memory, for the next.
bool measure_both(Entry& entry) {
  Cost ours;
  Cost theirs;
  if (entry.ratios.size() % 2 == 0) {
    theirs = entry.what.theirs();
    ours = entry.what.ours();
  } else {
    ours = entry.what.ours();
    theirs = entry.what.theirs();
  }
  if (ours.cpu_s < 0 || theirs.cpu_s <= 0) return false;
  entry.ours.push_back(ours.cpu_s);
  entry.theirs.push_back(theirs.cpu_s);
  entry.ratios.push_back(ours.cpu_s / theirs.cpu_s);
  entry.wall_ours.push_back(ours.wall_s);
  entry.wall_theirs.push_back(theirs.wall_s);
  return true;
}

void iterate(benchmark::State& state, Entry& entry) {
  for (auto unused : state) {
    (void)unused;
    if (!measure_both(entry)) {
      child_failed = true;
      state.SkipWithError("a child failed");
      return;
    }
    state.SetIterationTime(entry.ours.back());
  }
  state.counters["ms_ours"] = median(entry.ours) * 1e3;
  state.counters["ms_peer"] = median(entry.theirs) * 1e3;
  state.counters["ratio"] = median(entry.ratios);
  state.counters["wall_ratio"] = median(entry.wall_ours) / median(entry.wall_theirs);
}

const char* verdict(double ratio, double at_most) {
  if (at_most == 0) return "";
  return ratio <= at_most ? "met" : "MISSED";
}

void print_row(const std::string& name, const std::string& peer, double ours, double theirs,
               double ratio, double wall_ratio, double bar) {
  char bar_text[16] = "";
  if (bar != 0) snprintf(bar_text, sizeof bar_text, "%.4g", bar);
  printf("%-28s %-13s %12.4g %12.4g %8.4f %8.3f %8s %s\n", name.c_str(), peer.c_str(), ours, theirs,
         ratio, wall_ratio, bar_text, verdict(ratio, bar));
}

// True if every bar is met.
bool print_table() {
  bool met = true;
  std::map<std::string, std::pair<double, int>> logs;
  printf("\n%-28s %-13s %12s %12s %8s %8s %8s\n", "case", "peer", "ours cpu ms", "peer cpu ms",
         "ratio", "wall r.", "bar");
  for (const Entry& entry : entries) {
    if (entry.ratios.empty()) continue;
    const double ratio = median(entry.ratios);
    print_row(entry.what.name, entry.what.peer, median(entry.ours) * 1e3,
              median(entry.theirs) * 1e3, ratio,
              median(entry.wall_ours) / median(entry.wall_theirs), entry.what.at_most);
    met = met && (entry.what.at_most == 0 || ratio <= entry.what.at_most);
    if (!entry.what.in_mean) continue;
    logs[entry.what.peer].first += std::log(ratio);
    logs[entry.what.peer].second += 1;
  }
  for (const auto& [peer, sum] : logs) {
    const double mean = std::exp(sum.first / sum.second);
    const double bar = mean_bars.contains(peer) ? mean_bars[peer] : 0;
    printf("geometric mean of %2d ratios against %-13s %.4f", sum.second, peer.c_str(), mean);
    if (bar != 0) printf("  bar %.4g %s", bar, verdict(mean, bar));
    printf("\n");
    met = met && (bar == 0 || mean <= bar);
  }
  return met;
}

}  // namespace

void add(Comparison comparison) { entries.push_back({std::move(comparison), {}, {}, {}, {}, {}}); }

void set_mean_bar(const std::string& peer, double at_most) { mean_bars[peer] = at_most; }

Measure workload_cost(const std::vector<std::string>& arguments, const Allocator& allocator,
                      const std::vector<std::string>& environment) {
  return [=]() -> Cost {
    const Outcome outcome = run(workload(arguments), allocator, environment);
    if (!outcome.started) return {};
    return {outcome.number("cpu_ns") * 1e-9, outcome.number("wall_ns") * 1e-9};
  };
}

int run_all(int argc, char** argv) {
  for (Entry& entry : entries) {
    const std::string name = entry.what.name + "/" + entry.what.peer;
    benchmark::RegisterBenchmark(name.c_str(),
                                 [&entry](benchmark::State& state) { iterate(state, entry); })
        ->UseManualTime()
        ->Iterations(entry.what.rounds)
        ->Unit(benchmark::kMillisecond);
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return EXIT_FAILURE;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  const bool met = print_table();
  if (is_short_form()) printf("short form: the ratios above mean nothing\n");
  return child_failed || (!met && !is_short_form()) ? EXIT_FAILURE : EXIT_SUCCESS;
}

}  // namespace rdmalloc::bench
