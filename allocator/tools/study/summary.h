// A study's runs as one row of figures for each configuration. Failed runs are excluded.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "allocator/tools/study/configurations.h"
#include "allocator/tools/study/program_run.h"

namespace rdmalloc::cli::study {

// Repeats of one measurement: their median, their spread, and each value.
struct Spread {
  double median = 0, low = 0, high = 0;
  std::vector<double> values = {};
  double width() const { return high - low; }
};
// Nothing if there are no values.
std::optional<Spread> spread_of(std::vector<double> values);

struct Row {
  Configuration configuration;
  unsigned runs_ok = 0;
  std::optional<Spread> seconds, cpu_seconds, peak_resident, mean_resident;
  std::optional<double> peak_live, peak_held, peak_pinned;  // medians; nothing: not known
  std::optional<double> peak_overflow;                      // the highest of all repeats
  std::optional<double> held_to_live;
  std::optional<double> time_against_glibc, peak_against_glibc;
  bool on_pareto = false;
};

// The average resident memory over the time of the samples; nothing if there are none.
std::optional<double> mean_resident(const std::vector<Sample>& series);

// All samples if there are at most `most`; otherwise both ends, and the highest and lowest of each
// figure in equal stretches of the run, so that no peak is lost. samples.csv has all samples.
std::vector<Sample> thinned(const std::vector<Sample>& series, size_t most);

std::vector<Row> summarize(const std::vector<Configuration>& configurations,
                           const std::vector<Run>& runs);

// Marks the rows that no other row beats: to beat one, a row must be at least as good in peak and
// time, and better in one of them.
void mark_pareto(std::vector<Row>& rows);

// The configuration's row if it has runs that did not fail; otherwise null.
const Row* find_row(const std::vector<Row>& rows, const std::string& name);

}  // namespace rdmalloc::cli::study
