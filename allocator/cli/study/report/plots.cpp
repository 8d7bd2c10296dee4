#include "allocator/cli/study/report/plots.h"

#include <stdio.h>

#include <algorithm>

namespace rdmalloc::cli::report {

std::string quoted_for_gnuplot(const std::string& text) {
  std::string result = "'";
  for (const char c : clean(text)) {
    if (c == '\'')
      result += "''";
    else
      result += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;
  }
  return result + "'";
}

std::string label_for_gnuplot(const std::string& text) {
  return quoted_for_gnuplot(shortened(text, 56));
}

std::string number_for_gnuplot(const Figure& value) {
  if (!value) return "NaN";
  char text[64];
  snprintf(text, sizeof text, "%.7g", *value);
  return text;
}

std::string script_of(const Json& study, const std::string& name, const Drawing& drawing) {
  const auto size = [&](int times) {
    return std::to_string(drawing.width * times) + "," + std::to_string(drawing.height * times);
  };
  return "# " + quoted_for_gnuplot(command_line(study)) +
         "\n# Edit this and run it again here: gnuplot " + name +
         ".gp\n# Long runs are thinned to what can be seen; samples.csv has every sample.\n"
         "set encoding utf8\n"
         "set border 3 lc rgb '#59616b'\n"
         "set tics nomirror textcolor rgb '#1b1f24'\n"
         "set grid ytics lt 1 lw 0.8 lc rgb '#d5dae0'\n"
         "set key below left Left reverse samplen 3 height 0.7\n"
         "do for [form in 'svg png'] {\n"
         "if (form eq 'svg') { set terminal svg noenhanced size " +
         size(1) +
         " font 'sans-serif,14' background rgb '#ffffff' } else { "
         "set terminal pngcairo noenhanced size " +
         size(2) +
         " font 'sans,14' fontscale 2 linewidth 2 pointscale 2 }\n"
         "set output '" +
         name + ".'.form\n" + drawing.commands + "}\nunset output\n";
}

namespace {

// A data block: seconds, then each measure in units of `unit` bytes.
std::string data_of(const Series& series, double unit) {
  std::string data;
  for (const size_t i : thinned(series)) {
    data += number_for_gnuplot(series.seconds[i]);
    for (const auto& bytes : series.bytes) {
      const Figure value = bytes.empty() ? Figure() : bytes[i];
      data += " " + number_for_gnuplot(value ? Figure(*value / unit) : Figure());
    }
    data += "\n";
  }
  return data + "\n\n";
}

std::string line_style(const Look& look) {
  return " with lines lw 1.6 dt " + std::to_string(look.gnuplot_dash) + " lc rgb '" + look.light +
         "'";
}

std::string joined(const std::vector<std::string>& curves) {
  std::string result = "plot ";
  for (const std::string& curve : curves)
    result += (&curve == &curves[0] ? "" : ", \\\n  ") + curve;
  return result + "\n";
}

double most_bytes(const std::vector<Series>& all, const std::vector<size_t>& of_measures) {
  double most = 0;
  for (const Series& series : all) {
    for (const size_t m : of_measures) {
      for (const Figure& value : series.bytes[m]) most = std::max(most, value.value_or(0));
    }
  }
  return most;
}

// The series that represent their configurations.
std::vector<Series> shown_series(const Json& study) {
  std::vector<Series> all = series_of(study, configurations_of(study));
  std::erase_if(all, [](const Series& series) { return !series.shown; });
  return all;
}

std::string time_axis() { return "set xlabel 'seconds since the start'\nset xrange [0:*]\n"; }

// The resident memory of all configurations.
Plot memory_plot(const Json& study) {
  const auto configurations = configurations_of(study);
  std::vector<Series> all = shown_series(study);
  std::erase_if(all, [](const Series& series) { return series.bytes[kResident].empty(); });
  if (all.empty()) return {};
  const Unit unit = unit_for(most_bytes(all, {kResident}));
  Plot plot{"memory", "", ""};
  std::vector<std::string> curves;
  for (const Series& series : all) {
    curves.push_back("'memory.dat' index " + std::to_string(curves.size()) + " using 1:2" +
                     line_style(configurations[series.configuration].look) + " title " +
                     label_for_gnuplot(configurations[series.configuration].label));
    plot.data += data_of(series, unit.bytes);
  }
  Drawing drawing;
  drawing.height += 12 * static_cast<int>(curves.size());
  drawing.commands = time_axis() + "set ylabel 'resident memory, " + unit.name +
                     "'\nset yrange [0:*]\n" + joined(curves);
  plot.script = script_of(study, plot.name, drawing);
  return plot;
}

std::string curves_of_measures(const Series& series, size_t index) {
  std::vector<std::string> curves;
  for (size_t m = 0; m < kMeasures; ++m) {
    if (series.bytes[m].empty()) continue;
    curves.push_back("'measures.dat' index " + std::to_string(index) + " using 1:" +
                     std::to_string(m + 2) + line_style(measures()[m].look) + " notitle");
  }
  return joined(curves);
}

// One key for all panels, below them: gnuplot's own belongs to one panel and is as wide as it.
std::string key_of_measures(double height) {
  std::string commands = "unset key\n";
  const std::string y = number_for_gnuplot(22 / height);
  for (size_t m = 0; m < kMeasures; ++m) {
    const double x = 0.1 + 0.18 * static_cast<double>(m);
    const Look& look = measures()[m].look;
    commands += "set arrow from screen " + number_for_gnuplot(x) + "," + y + " to screen " +
                number_for_gnuplot(x + 0.045) + "," + y + " nohead lw 1.6 dt " +
                std::to_string(look.gnuplot_dash) + " lc rgb '" + look.light + "'\nset label '" +
                measures()[m].name + "' at screen " + number_for_gnuplot(x + 0.055) + "," + y +
                "\n";
  }
  return commands;
}

// All measures of each configuration: one panel each, on the same axes.
Plot measures_plot(const Json& study) {
  const auto configurations = configurations_of(study);
  const std::vector<Series> all = shown_series(study);
  const double most = most_bytes(all, {kResident, kLive, kHeld, kPinned, kOverflow});
  if (all.empty() || most <= 0) return {};
  const Unit unit = unit_for(most);
  double last = 0;
  for (const Series& series : all) last = std::max(last, series.seconds.back());
  const size_t columns = all.size() > 1 ? 2 : 1, rows = (all.size() + columns - 1) / columns;
  Plot plot{"measures", "", ""};
  Drawing drawing;
  drawing.height = 90 + 250 * static_cast<int>(rows);
  const std::string bottom = number_for_gnuplot(125.0 / drawing.height);
  const std::string top = number_for_gnuplot(1 - 38.0 / drawing.height);
  const std::string gap = number_for_gnuplot(80.0 / drawing.height);
  drawing.commands = "set multiplot layout " + std::to_string(rows) + "," +
                     std::to_string(columns) + " margins 0.1,0.98," + bottom + "," + top +
                     " spacing 0.07," + gap + "\n" + key_of_measures(drawing.height) +
                     "set yrange [0:" + number_for_gnuplot(most / unit.bytes * 1.05) +
                     "]\nset xrange [0:" + number_for_gnuplot(std::max(last, 1e-3)) + "]\n";
  for (size_t i = 0; i < all.size(); ++i) {
    plot.data += data_of(all[i], unit.bytes);
    drawing.commands +=
        "set title " + label_for_gnuplot(configurations[all[i].configuration].label) +
        " offset 0,-0.5\n" +
        (i + columns >= all.size() ? "set xlabel 'seconds since the start'\n" : "unset xlabel\n") +
        (i % columns == 0 ? std::string("set ylabel '") + unit.name + "' offset 1.5,0\n"
                          : "unset ylabel\n") +
        curves_of_measures(all[i], i);
  }
  drawing.commands += "unset multiplot\n";
  plot.script = script_of(study, plot.name, drawing);
  return plot;
}

// Held memory divided by live memory; gaps where the program uses less than a hundredth of its
// peak.
Plot ratio_plot(const Json& study) {
  const auto configurations = configurations_of(study);
  std::vector<Series> all = shown_series(study);
  std::erase_if(all, [](const Series& series) {
    return series.bytes[kHeld].empty() || series.bytes[kLive].empty();
  });
  if (all.empty()) return {};
  Plot plot{"ratio", "", ""};
  std::vector<std::string> curves;
  double most_ratio = 1;
  for (const Series& series : all) {
    const double least = most_bytes({series}, {kLive}) / 100;
    for (const size_t i : thinned(series)) {
      const Figure held = series.bytes[kHeld][i], live = series.bytes[kLive][i];
      const bool told = held && live && *live > 0 && *live >= least;
      if (told) most_ratio = std::max(most_ratio, *held / *live);
      plot.data += number_for_gnuplot(series.seconds[i]) + " " +
                   number_for_gnuplot(told ? Figure(*held / *live) : Figure()) + "\n";
    }
    plot.data += "\n\n";
    curves.push_back("'ratio.dat' index " + std::to_string(curves.size()) + " using 1:2" +
                     line_style(configurations[series.configuration].look) + " title " +
                     label_for_gnuplot(configurations[series.configuration].label));
  }
  Drawing drawing;
  drawing.commands =
      time_axis() + "set ylabel 'held / live'\n" +
      (most_ratio > 10 ? "set logscale y\nset yrange [1:*]\n" : "set yrange [0:*]\n") +
      joined(curves);
  plot.script = script_of(study, plot.name, drawing);
  return plot;
}

}  // namespace

std::vector<Plot> plots_of(const Json& study) {
  std::vector<Plot> all;
  for (const auto& make :
       {memory_plot, measures_plot, ratio_plot, tradeoff_plot, cap_plot, phases_plot}) {
    Plot plot = make(study);
    if (!plot.name.empty()) all.push_back(std::move(plot));
  }
  return all;
}

}  // namespace rdmalloc::cli::report
