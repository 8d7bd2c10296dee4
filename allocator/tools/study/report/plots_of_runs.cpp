// Plots in which each point is a whole run.
#include <algorithm>
#include <iterator>
#include <map>

#include "allocator/tools/study/report/plots.h"

namespace rdmalloc::cli::report {
namespace {

// The range of an axis that need not begin at 0, as in the page's chart.
std::string range_of(const std::vector<double>& values) {
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  const double room = std::max({(*high - *low) * 0.18, *high * 0.04, 1e-4});
  return "[" + number_for_gnuplot(std::max(0.0, *low - room)) + ":" +
         number_for_gnuplot(*high + room) + "]";
}

const Json& summary_rows(const Json& study) { return list(member(study, "summary"), "table"); }

bool placed(const Json& object) {
  return figure(object, "seconds") && figure(object, "peak_resident_bytes");
}

std::string place_of(const Json& object, double unit) {
  return number_for_gnuplot(figure(object, "seconds")) + " " +
         number_for_gnuplot(*figure(object, "peak_resident_bytes") / unit) + "\n";
}

std::string block(const std::string& lines) {
  return (lines.empty() ? "NaN NaN NaN\n" : lines) + "\n\n";
}

}  // namespace

Plot tradeoff_plot(const Json& study) {
  const auto configurations = configurations_of(study);
  double most = 0;
  std::vector<double> seconds, peaks;
  std::vector<const Json*> pareto;
  const auto note = [&](const Json& object) {
    seconds.push_back(*figure(object, "seconds"));
    peaks.push_back(*figure(object, "peak_resident_bytes"));
    most = std::max(most, peaks.back());
  };
  for (const Json& row : summary_rows(study)) {
    if (!placed(row)) continue;
    note(row);
    if (flag(row, "on_pareto")) pareto.push_back(&row);
  }
  if (seconds.empty()) return {};
  for (const Json& run : list(study, "runs")) {
    if (flag(run, "ok") && placed(run)) note(run);
  }
  const Unit unit = unit_for(most);
  for (double& peak : peaks) peak /= unit.bytes;

  std::stable_sort(pareto.begin(), pareto.end(), [](const Json* a, const Json* b) {
    return *figure(*a, "seconds") < *figure(*b, "seconds");
  });
  std::string line;
  for (const Json* row : pareto) line += place_of(*row, unit.bytes);
  std::string data = block(line);
  std::vector<LabelledLook> looks;
  for (const Configuration& configuration : configurations) {
    std::string runs, medians;
    for (const Json& run : list(study, "runs")) {
      if (text(run, "configuration") == configuration.name && flag(run, "ok") && placed(run)) {
        runs += place_of(run, unit.bytes);
      }
    }
    for (const Json& row : summary_rows(study)) {
      if (text(row, "configuration") == configuration.name && placed(row)) {
        medians += place_of(row, unit.bytes);
      }
    }
    if (medians.empty()) continue;
    data += block(runs) + block(medians);
    looks.emplace_back(configuration.label, configuration.look);
  }
  return plot_from_template(
      study, "tradeoff", 540 + 12 * static_cast<int>(looks.size()), looks_for_gnuplot("", looks),
      {{"unit", unit.name}, {"seconds", range_of(seconds)}, {"peaks", range_of(peaks)}}, data);
}

namespace {

struct CapRow {
  const Configuration* configuration;
  double seconds;
  Figure overflow;
};

std::vector<CapRow> cap_rows(const Json& study, const std::vector<Configuration>& configurations) {
  std::vector<CapRow> rows;
  for (const Json& row : summary_rows(study)) {
    const size_t c = index_of(configurations, text(row, "configuration"));
    const Figure seconds = figure(row, "seconds");
    if (c == configurations.size() || !configurations[c].cap || !seconds) continue;
    rows.push_back({&configurations[c], *seconds, figure(row, "peak_overflow_bytes")});
  }
  std::ranges::stable_sort(rows, {}, [](const CapRow& row) { return *row.configuration->cap; });
  return rows;
}

// The time without a cap, for each kind (pinned, unpinned) that has caps: a horizontal line each.
std::string uncapped_lines(const Json& study, const std::vector<Configuration>& configurations,
                           const std::vector<CapRow>& rows) {
  std::string lines;
  for (const Json& row : summary_rows(study)) {
    const size_t c = index_of(configurations, text(row, "configuration"));
    const Figure seconds = figure(row, "seconds");
    if (c == configurations.size() || configurations[c].cap || !seconds ||
        configurations[c].allocator != "rdmalloc" ||
        std::none_of(rows.begin(), rows.end(), [&](const CapRow& capped) {
          return capped.configuration->pinned == configurations[c].pinned;
        })) {
      continue;
    }
    lines += ", \\\n  " + number_for_gnuplot(seconds) +
             " with lines lw 1.2 dt 2 lc rgb '#59616b' title " +
             quoted_for_gnuplot(shortened(configurations[c].label, 56) + ", without a cap");
  }
  return lines;
}

}  // namespace

Plot cap_plot(const Json& study) {
  const auto configurations = configurations_of(study);
  const std::vector<CapRow> rows = cap_rows(study, configurations);
  if (rows.empty()) return {};
  std::vector<double> caps;
  double most = 0;
  for (const CapRow& row : rows) {
    most = std::max({most, *row.configuration->cap, row.overflow.value_or(0)});
  }
  const Unit unit = unit_for(most);
  std::vector<LabelledLook> looks;
  std::string medians, runs;
  for (const CapRow& row : rows) {
    caps.push_back(*row.configuration->cap / unit.bytes);
    looks.emplace_back(row.configuration->label, row.configuration->look);
    const Figure overflow = row.overflow ? Figure(*row.overflow / unit.bytes) : Figure();
    medians += number_for_gnuplot(caps.back()) + " " + number_for_gnuplot(row.seconds) + " " +
               number_for_gnuplot(overflow) + "\n";
    std::string own;
    for (const Json& run : list(study, "runs")) {
      if (text(run, "configuration") != row.configuration->name || !flag(run, "ok")) continue;
      own +=
          number_for_gnuplot(caps.back()) + " " + number_for_gnuplot(figure(run, "seconds")) + "\n";
    }
    runs += block(own);
  }
  return plot_from_template(study, "cap", 640 + 12 * static_cast<int>(looks.size()),
                            looks_for_gnuplot("", looks),
                            {{"caps", range_of(caps)},
                             {"unit", unit.name},
                             {"uncapped", uncapped_lines(study, configurations, rows)}},
                            block(medians) + runs);
}

namespace {

// The configuration whose phases are drawn: pinned without a cap, if that has any.
size_t with_phases(const Json& study, const std::vector<Configuration>& configurations) {
  size_t found = configurations.size();
  for (const Json& run : list(study, "runs")) {
    const size_t c = index_of(configurations, text(run, "configuration"));
    if (c == configurations.size() || !flag(run, "ok") || list(run, "phases").empty()) continue;
    if (configurations[c].pinned && !configurations[c].cap) return c;
    if (found == configurations.size()) found = c;
  }
  return found;
}

}  // namespace

Plot phases_plot(const Json& study) {
  constexpr size_t kShown[] = {kLive, kHeld, kPinned};
  const auto configurations = configurations_of(study);
  const size_t c = with_phases(study, configurations);
  if (c == configurations.size()) return {};
  std::vector<std::string> names;
  std::map<std::pair<std::string, size_t>, std::vector<double>> peaks;
  double most = 0;
  for (const Json& run : list(study, "runs")) {
    if (text(run, "configuration") != configurations[c].name || !flag(run, "ok")) continue;
    for (const Json& phase : list(run, "phases")) {
      const std::string name = text(phase, "name");
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
      for (const size_t m : kShown) {
        const Figure peak = figure(phase, kAllMeasures[m].peak);
        if (peak) peaks[{name, m}].push_back(*peak);
        most = std::max(most, peak.value_or(0));
      }
    }
  }
  const Unit unit = unit_for(most);
  std::string tics, data;
  for (const std::string& name : names) {
    tics += (tics.empty() ? "" : ", ") + quoted_for_gnuplot(shortened(name, 20)) + " " +
            std::to_string(&name - &names[0]);
    for (const size_t m : kShown) {
      const auto& values = peaks[{name, m}];
      data += number_for_gnuplot(values.empty() ? Figure() : median(values) / unit.bytes) + " ";
    }
    data += "\n";
  }
  std::vector<LabelledLook> looks;
  for (const size_t m : kShown) looks.emplace_back(kAllMeasures[m].key, kAllMeasures[m].look);
  return plot_from_template(
      study, "phases", 540, looks_for_gnuplot("", looks),
      {{"title", quoted_for_gnuplot(shortened(configurations[c].label, 56))},
       {"phases", "[-0.6:" + number_for_gnuplot(static_cast<double>(names.size()) - 0.4) + "]"},
       {"tics", tics},
       {"turned", names.size() > 6 ? " rotate by -35" : ""},
       {"unit", unit.name}},
      data);
}

}  // namespace rdmalloc::cli::report
