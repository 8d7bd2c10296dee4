// Plots in which each point is a whole run.
#include <algorithm>
#include <iterator>
#include <map>

#include "allocator/cli/study/report/plots.h"

namespace rdmalloc::cli::report {
namespace {

// The range of an axis that need not begin at 0, as in the page's chart.
std::string range_of(const std::vector<double>& values) {
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  const double room = std::max({(*high - *low) * 0.18, *high * 0.04, 1e-4});
  return "[" + number_for_gnuplot(std::max(0.0, *low - room)) + ":" +
         number_for_gnuplot(*high + room) + "]\n";
}

std::string points_style(const Look& look, const char* size) {
  return " with points pt " + std::to_string(look.gnuplot_point) + " ps " + size + " lc rgb '" +
         look.light + "'";
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

  Plot plot{"tradeoff", "", ""};
  std::stable_sort(pareto.begin(), pareto.end(), [](const Json* a, const Json* b) {
    return *figure(*a, "seconds") < *figure(*b, "seconds");
  });
  std::string line;
  for (const Json* row : pareto) line += place_of(*row, unit.bytes);
  plot.data = block(line);
  std::string curves =
      "plot 'tradeoff.dat' index 0 using 1:2 with steps lw 1.2 dt 2 lc rgb '#59616b' title 'Pareto "
      "line'";
  size_t index = 1;
  for (size_t c = 0; c < configurations.size(); ++c) {
    std::string runs, medians;
    for (const Json& run : list(study, "runs")) {
      if (text(run, "configuration") == configurations[c].name && flag(run, "ok") && placed(run)) {
        runs += place_of(run, unit.bytes);
      }
    }
    for (const Json& row : summary_rows(study)) {
      if (text(row, "configuration") == configurations[c].name && placed(row)) {
        medians += place_of(row, unit.bytes);
      }
    }
    if (medians.empty()) continue;
    plot.data += block(runs) + block(medians);
    const Look look = configurations[c].look;
    curves += ", \\\n  'tradeoff.dat' index " + std::to_string(index) + " using 1:2" +
              points_style(look, "0.5") + " notitle, \\\n  'tradeoff.dat' index " +
              std::to_string(index + 1) + " using 1:2" + points_style(look, "1.4") + " title " +
              label_for_gnuplot(configurations[c].label);
    index += 2;
  }
  Drawing drawing;
  drawing.height += 12 * static_cast<int>(index / 2);
  drawing.commands =
      "set xlabel 'time, seconds (small: runs, large: medians)'\n"
      "set ylabel 'peak resident memory, " +
      std::string(unit.name) + "'\nset xrange " + range_of(seconds) + "set yrange " +
      range_of(peaks) + curves + "\n";
  plot.script = script_of(study, plot.name, drawing);
  return plot;
}

namespace {

struct CapRow {
  double cap, seconds;
  Figure overflow;
  bool pinned;
};

std::vector<CapRow> cap_rows(const Json& study, const std::vector<Configuration>& configurations) {
  std::vector<CapRow> rows;
  for (const Json& row : summary_rows(study)) {
    const size_t c = index_of(configurations, text(row, "configuration"));
    const Figure seconds = figure(row, "seconds");
    if (c == configurations.size() || !configurations[c].cap || !seconds) continue;
    rows.push_back({*configurations[c].cap, *seconds, figure(row, "peak_overflow_bytes"),
                    configurations[c].pinned});
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const CapRow& a, const CapRow& b) { return a.cap < b.cap; });
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
          return capped.pinned == configurations[c].pinned;
        })) {
      continue;
    }
    lines += ", \\\n  " + number_for_gnuplot(seconds) +
             " with lines lw 1.2 dt 2 lc rgb '#59616b' title " +
             label_for_gnuplot(configurations[c].label + ", without a cap");
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
  for (const CapRow& row : rows) most = std::max({most, row.cap, row.overflow.value_or(0)});
  const Unit unit = unit_for(most);
  Plot plot{"cap", "", ""};
  std::string medians, runs;
  for (const CapRow& row : rows) {
    caps.push_back(row.cap / unit.bytes);
    const Figure overflow = row.overflow ? Figure(*row.overflow / unit.bytes) : Figure();
    medians += number_for_gnuplot(caps.back()) + " " + number_for_gnuplot(row.seconds) + " " +
               number_for_gnuplot(overflow) + "\n";
  }
  for (const Json& run : list(study, "runs")) {
    const size_t c = index_of(configurations, text(run, "configuration"));
    if (c == configurations.size() || !configurations[c].cap || !flag(run, "ok")) continue;
    runs += number_for_gnuplot(*configurations[c].cap / unit.bytes) + " " +
            number_for_gnuplot(figure(run, "seconds")) + "\n";
  }
  plot.data = block(medians) + block(runs);
  const Look time = measures()[kHeld].look, over = measures()[kOverflow].look;
  Drawing drawing;
  drawing.height = 680;
  drawing.commands =
      "set multiplot layout 2,1\nset lmargin 10\nset xrange " + range_of(caps) +
      "unset xlabel\nset yrange [0:*]\nset ylabel 'time, seconds'\nplot 'cap.dat' index 0 using "
      "1:2 "
      "with linespoints lw 1.6 pt 9 ps 1 lc rgb '" +
      time.light +
      "' title 'median', \\\n"
      "  'cap.dat' index 1 using 1:2 with points pt 7 ps 0.4 lc rgb '" +
      time.light + "' title 'runs'" + uncapped_lines(study, configurations, rows) +
      "\nset xlabel 'cap, " + unit.name + "'\nset ylabel 'peak overflow, " + unit.name +
      "'\nplot 'cap.dat' index 0 using 1:3 with linespoints lw 1.6 pt 7 ps 1 lc rgb '" +
      over.light + "' title 'beyond the cap, not pinned'\nunset multiplot\n";
  plot.script = script_of(study, plot.name, drawing);
  return plot;
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
        const Figure peak = figure(phase, measures()[m].peak);
        if (peak) peaks[{name, m}].push_back(*peak);
        most = std::max(most, peak.value_or(0));
      }
    }
  }
  const Unit unit = unit_for(most);
  Plot plot{"phases", "", ""};
  std::string tics, curves;
  for (const std::string& name : names) {
    tics += (tics.empty() ? "" : ", ") + quoted_for_gnuplot(shortened(name, 20)) + " " +
            std::to_string(&name - &names[0]);
    for (const size_t m : kShown) {
      const auto& values = peaks[{name, m}];
      plot.data +=
          number_for_gnuplot(values.empty() ? Figure() : median(values) / unit.bytes) + " ";
    }
    plot.data += "\n";
  }
  for (size_t i = 0; i < std::size(kShown); ++i) {
    const Measure& measure = measures()[kShown[i]];
    curves += (i == 0 ? "plot 'phases.dat' using " : ", \\\n  '' using ") + std::to_string(i + 1) +
              " lc rgb '" + measure.look.light + "' title '" + measure.name + "'";
  }
  Drawing drawing;
  drawing.commands =
      "set style data histograms\nset style histogram clustered gap 1\n"
      "set style fill solid 1 noborder\nset xrange [-0.6:" +
      number_for_gnuplot(static_cast<double>(names.size()) - 0.4) +
      "]\nset yrange [0:*]\nset xlabel 'phase'\n"
      "set title " +
      label_for_gnuplot(configurations[c].label) + "\nset ylabel 'peak in the phase, " + unit.name +
      "'\nset xtics (" + tics + ")" + (names.size() > 6 ? " rotate by -35" : "") + "\n" + curves +
      "\n";
  plot.script = script_of(study, plot.name, drawing);
  return plot;
}

}  // namespace rdmalloc::cli::report
