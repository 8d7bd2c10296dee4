#include "allocator/tools/study/summary.h"

#include <algorithm>
#include <iterator>
#include <set>

namespace rdmalloc::cli::study {
namespace {

using Values = std::vector<double>;

std::optional<double> median_of(const Values& values) {
  const std::optional<Spread> spread = spread_of(values);
  return spread ? std::optional(spread->median) : std::nullopt;
}

// The runs of one configuration: one value for each run that did not fail and has it.
struct Collected {
  Values seconds, cpu, peak, mean, live, held, pinned, overflow, ratio;

  void add(const Run& run) {
    const Samples& samples = run.samples;
    seconds.push_back(run.seconds);
    cpu.push_back(run.user_seconds + run.system_seconds);
    if (samples.peak_resident != 0) peak.push_back(static_cast<double>(samples.peak_resident));
    if (const auto value = mean_resident(samples.series)) mean.push_back(*value);
    pinned.push_back(static_cast<double>(samples.peak_pinned));
    if (!samples.has_counters) return;
    live.push_back(static_cast<double>(samples.peak_live));
    held.push_back(static_cast<double>(samples.peak_held));
    overflow.push_back(static_cast<double>(samples.peak_overflow));
    if (samples.peak_live != 0) ratio.push_back(held.back() / live.back());
  }
};

Row row_of(const Configuration& configuration, const std::vector<Run>& runs) {
  Collected all;
  Row row;
  row.configuration = configuration;
  for (const Run& run : runs) {
    if (run.configuration != configuration.name || !run.ok) continue;
    ++row.runs_ok;
    all.add(run);
  }
  row.seconds = spread_of(all.seconds);
  row.cpu_seconds = spread_of(all.cpu);
  row.peak_resident = spread_of(all.peak);
  row.mean_resident = spread_of(all.mean);
  row.peak_live = median_of(all.live);
  row.peak_held = median_of(all.held);
  row.peak_pinned = median_of(all.pinned);
  row.held_to_live = median_of(all.ratio);
  if (!all.overflow.empty()) row.peak_overflow = std::ranges::max(all.overflow);
  return row;
}

std::optional<double> ratio_of(const std::optional<Spread>& value,
                               const std::optional<Spread>& base) {
  if (!value || !base || base->median <= 0) return std::nullopt;
  return value->median / base->median;
}

bool beats(const Row& one, const Row& other) {
  if (!one.seconds || !one.peak_resident) return false;
  const bool as_good = one.seconds->median <= other.seconds->median &&
                       one.peak_resident->median <= other.peak_resident->median;
  return as_good && (one.seconds->median < other.seconds->median ||
                     one.peak_resident->median < other.peak_resident->median);
}

}  // namespace

std::optional<Spread> spread_of(std::vector<double> values) {
  if (values.empty()) return std::nullopt;
  std::ranges::sort(values);
  const size_t middle = values.size() / 2;
  const double median =
      values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
  return Spread{median, values.front(), values.back(), values};
}

std::optional<double> mean_resident(const std::vector<Sample>& series) {
  if (series.empty()) return std::nullopt;
  double area = 0;
  for (size_t i = 1; i < series.size(); ++i) {
    area += (series[i].seconds - series[i - 1].seconds) *
            static_cast<double>(series[i].resident + series[i - 1].resident) / 2;
  }
  const double time = series.back().seconds - series.front().seconds;
  return time > 0 ? area / time : static_cast<double>(series.front().resident);
}

std::vector<Sample> thinned(const std::vector<Sample>& series, size_t most) {
  if (series.size() <= most) return series;
  constexpr size_t kFields = std::size(kSampleFields);
  const size_t stretches = std::max<size_t>((most - 2) / (2 * kFields), 1);
  std::set<size_t> chosen{0, series.size() - 1};
  const auto at = [&](size_t stretch) {
    return series.begin() + static_cast<ptrdiff_t>(series.size() * stretch / stretches);
  };
  for (size_t i = 0; i < stretches; ++i) {
    for (const SampleField& field : kSampleFields) {
      const auto [low, high] =
          std::minmax_element(at(i), at(i + 1), [&](const Sample& one, const Sample& other) {
            return one.*field.value < other.*field.value;
          });
      chosen.insert(
          {static_cast<size_t>(low - series.begin()), static_cast<size_t>(high - series.begin())});
    }
  }
  std::vector<Sample> kept;
  kept.reserve(chosen.size());
  for (const size_t index : chosen) kept.push_back(series[index]);
  return kept;
}

std::vector<Row> summarize(const std::vector<Configuration>& configurations,
                           const std::vector<Run>& runs) {
  std::vector<Row> rows;
  rows.reserve(configurations.size());
  for (const Configuration& configuration : configurations) {
    rows.push_back(row_of(configuration, runs));
  }
  if (const Row* base = find_row(rows, "glibc")) {
    for (Row& row : rows) {
      row.time_against_glibc = ratio_of(row.seconds, base->seconds);
      row.peak_against_glibc = ratio_of(row.peak_resident, base->peak_resident);
    }
  }
  mark_pareto(rows);
  return rows;
}

void mark_pareto(std::vector<Row>& rows) {
  for (Row& row : rows) {
    row.on_pareto = row.seconds && row.peak_resident &&
                    std::ranges::none_of(rows, [&](const Row& other) { return beats(other, row); });
  }
}

const Row* find_row(const std::vector<Row>& rows, const std::string& name) {
  for (const Row& row : rows) {
    if (row.configuration.name == name && row.runs_ok != 0) return &row;
  }
  return nullptr;
}

}  // namespace rdmalloc::cli::study
