// The runs of a study as one row of figures for each configuration. Failed runs are in no figure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "allocator/cli/study/configurations.h"
#include "allocator/cli/study/program_run.h"

namespace rdmalloc::cli::study {

// Repeats of one measurement: their median, and how far they lie apart.
struct Spread {
  double median = 0, low = 0, high = 0;
  double width() const { return high - low; }
  // Two measurements that have a value in common: no difference between them can be seen.
  bool overlaps(const Spread& other) const { return low <= other.high && other.low <= high; }
};
// Nothing of no values.
std::optional<Spread> spread_of(std::vector<double> values);

struct Row {
  Configuration configuration;
  unsigned runs_ok = 0;
  std::optional<Spread> seconds, peak_resident, mean_resident;
  std::optional<double> peak_live, peak_held, peak_pinned;  // medians; nothing: not known
  std::optional<double> peak_overflow;                      // the highest of all repeats
  std::optional<double> held_to_live;
  std::optional<double> time_against_glibc, peak_against_glibc;
  bool on_pareto = false;
};

// What was resident on average over the time of the samples; nothing without any.
std::optional<double> mean_resident(const std::vector<Sample>& series);

// No more than `most` samples (at least 2): of each stretch the one with the most resident, so that
// no peak is lost; the first and the last stay.
std::vector<Sample> thinned(const std::vector<Sample>& series, size_t most);
// More than a chart can show; samples.csv has all.
inline constexpr size_t kMostPoints = 2000;

std::vector<Row> summarize(const std::vector<Configuration>& configurations,
                           const std::vector<Run>& runs);

// Marks the rows that no other row beats: one that is at least as good in peak and time, and better
// in one of them.
void mark_pareto(std::vector<Row>& rows);

// The row of that configuration if it has runs that did not fail; else null.
const Row* find_row(const std::vector<Row>& rows, const std::string& name);

}  // namespace rdmalloc::cli::study
