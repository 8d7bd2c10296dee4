#include "allocator/tools/study/report/plots.h"

#include <algorithm>

#include "allocator/tools/study/report/assets.h"
#include "allocator/tools/study/report/html.h"
#include "allocator/tools/text.h"

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

std::string number_for_gnuplot(const Figure& value) {
  return value ? format("%.7g", *value) : "NaN";
}

Plot plot_from_template(const Json& study, const std::string& name, int height,
                        const std::string& looks, Values values, std::string data) {
  const std::string body = filled(plot_template(name), values);
  values = {{"command", quoted_for_gnuplot(command_line(study))},
            {"name", name},
            {"looks", looks},
            {"height", std::to_string(height)},
            {"body", body}};
  return {name, filled(plot_template("plot"), values), std::move(data)};
}

std::string looks_for_gnuplot(const std::string& prefix, const std::vector<LabelledLook>& looks) {
  std::string arrays;
  const auto add = [&](const char* name, const auto& text_of) {
    arrays += "array " + prefix + name + "[" + std::to_string(looks.size()) + "] = [";
    for (const LabelledLook& one : looks) arrays += (&one == &looks[0] ? "" : ", ") + text_of(one);
    arrays += "]\n";
  };
  add("labels", [](const auto& one) { return quoted_for_gnuplot(shortened(one.first, 56)); });
  add("colours", [](const auto& one) { return quoted_for_gnuplot(one.second.light); });
  add("dashes", [](const auto& one) { return std::to_string(one.second.dash); });
  add("marks", [](const auto& one) { return std::to_string(one.second.mark); });
  return arrays;
}

namespace {

// A data block: seconds, then each measure in units of `unit` bytes.
std::string data_of(const Series& series, double unit) {
  std::string data;
  for (size_t i = 0; i < series.seconds.size(); ++i) {
    data += number_for_gnuplot(series.seconds[i]);
    for (const auto& bytes : series.bytes) {
      const Figure value = bytes.empty() ? Figure() : bytes[i];
      data += " " + number_for_gnuplot(value ? Figure(*value / unit) : Figure());
    }
    data += "\n";
  }
  return data + "\n\n";
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

std::string looks_of(const Json& study, const std::vector<Series>& all) {
  const auto configurations = configurations_of(study);
  std::vector<LabelledLook> looks;
  for (const Series& series : all) {
    const Configuration& one = configurations[series.configuration];
    looks.emplace_back(one.label, one.look);
  }
  return looks_for_gnuplot("", looks);
}

// The resident memory of all configurations.
Plot memory_plot(const Json& study) {
  std::vector<Series> all = shown_series(study);
  std::erase_if(all, [](const Series& series) { return series.bytes[kResident].empty(); });
  if (all.empty()) return {};
  const Unit unit = unit_for(most_bytes(all, {kResident}));
  std::string data;
  for (const Series& series : all) data += data_of(series, unit.bytes);
  return plot_from_template(study, "memory", 540 + 12 * static_cast<int>(all.size()),
                            looks_of(study, all), {{"unit", unit.name}}, data);
}

// All measures of each configuration: one panel each, on the same axes.
Plot measures_plot(const Json& study) {
  const std::vector<Series> all = shown_series(study);
  const double most = most_bytes(all, {kResident, kLive, kHeld, kPinned, kOverflow});
  if (all.empty() || most <= 0) return {};
  const Unit unit = unit_for(most);
  double last = 1e-3;
  std::string data;
  for (const Series& series : all) {
    last = std::max(last, series.seconds.back());
    data += data_of(series, unit.bytes);
  }
  const size_t columns = all.size() > 1 ? 2 : 1, rows = (all.size() + columns - 1) / columns;
  const int height = 90 + 250 * static_cast<int>(rows);
  const auto part = [&](double pixels) { return number_for_gnuplot(pixels / height); };
  std::vector<LabelledLook> looks;
  looks.reserve(kAllMeasures.size());
  for (const Measure& measure : kAllMeasures) looks.emplace_back(measure.key, measure.look);
  return plot_from_template(study, "measures", height,
                            looks_of(study, all) + looks_for_gnuplot("measure_", looks),
                            {{"rows", std::to_string(rows)},
                             {"columns", std::to_string(columns)},
                             {"bottom", part(125)},
                             {"top", part(height - 38)},
                             {"gap", part(80)},
                             {"key", part(22)},
                             {"unit", unit.name},
                             {"last", number_for_gnuplot(last)},
                             {"most", number_for_gnuplot(most / unit.bytes * 1.05)}},
                            data);
}

// Held memory divided by live memory; gaps where the program uses less than a hundredth of its
// peak.
Plot ratio_plot(const Json& study) {
  std::vector<Series> all = shown_series(study);
  std::erase_if(all, [](const Series& series) {
    return series.bytes[kHeld].empty() || series.bytes[kLive].empty();
  });
  if (all.empty()) return {};
  std::string data;
  double most_ratio = 1;
  for (const Series& series : all) {
    const double least = most_bytes({series}, {kLive}) / 100;
    for (size_t i = 0; i < series.seconds.size(); ++i) {
      const Figure held = series.bytes[kHeld][i], live = series.bytes[kLive][i];
      const bool told = held && live && *live > 0 && *live >= least;
      if (told) most_ratio = std::max(most_ratio, *held / *live);
      data += number_for_gnuplot(series.seconds[i]) + " " +
              number_for_gnuplot(told ? Figure(*held / *live) : Figure()) + "\n";
    }
    data += "\n\n";
  }
  return plot_from_template(study, "ratio", 540, looks_of(study, all),
                            {{"most", number_for_gnuplot(most_ratio)}}, data);
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
