#include "allocator/tools/study/report/charts.h"

#include <cmath>

namespace rdmalloc::cli::report {
namespace {

Json or_null(const Figure& value) { return value ? Json(*value) : Json(); }

Json of_look(const Look& look) {
  return {{"light", look.light},
          {"dark", look.dark},
          {"dash", dash_name(look)},
          {"symbol", mark_name(look)},
          {"hollow", look.is_hollow()}};
}

// In KiB and tenths of a millisecond: finer steps cannot be seen, and would double the size of the
// page.
Json of_series(const Series& series) {
  Json result = {{"configuration", series.configuration},
                 {"repeat", series.repeat},
                 {"shown", series.shown},
                 {"samples", series.samples}};
  Json seconds = Json::array();
  for (const double at : series.seconds) seconds.push_back(std::round(at * 1e4) / 1e4);
  result["seconds"] = std::move(seconds);
  for (size_t m = 0; m < kMeasures; ++m) {
    Json values;
    if (!series.bytes[m].empty()) {
      values = Json::array();
      for (const Figure& bytes : series.bytes[m]) {
        values.push_back(bytes ? Json(std::llround(*bytes / 1024)) : Json());
      }
    }
    result[kAllMeasures[m].key] = std::move(values);
  }
  return result;
}

Json of_run(const Json& run, size_t configuration) {
  Json phases = Json::array();
  for (const Json& phase : list(run, "phases")) {
    phases.push_back({{"name", text(phase, "name")},
                      {"live", or_null(figure(phase, "peak_live_bytes"))},
                      {"held", or_null(figure(phase, "peak_held_bytes"))},
                      {"pinned", or_null(figure(phase, "peak_pinned_bytes"))}});
  }
  return {{"configuration", configuration},
          {"repeat", or_null(figure(run, "repeat"))},
          {"ok", flag(run, "ok")},
          {"seconds", or_null(figure(run, "seconds"))},
          {"peak", or_null(figure(run, "peak_resident_bytes"))},
          {"overflow", or_null(figure(run, "peak_overflow_bytes"))},
          {"phases", std::move(phases)}};
}

}  // namespace

Json chart_document(const Json& study) {
  const auto configurations = configurations_of(study);
  Json result = {{"configurations", Json::array()},
                 {"measures", Json::array()},
                 {"series", Json::array()},
                 {"runs", Json::array()},
                 {"medians", Json::array()}};
  for (size_t c = 0; c < configurations.size(); ++c) {
    Json one = of_look(configurations[c].look);
    one["label"] = configurations[c].label;
    one["allocator"] = configurations[c].allocator;
    one["pinned"] = configurations[c].pinned;
    one["cap"] = or_null(configurations[c].cap);
    result["configurations"].push_back(std::move(one));
  }
  for (const Measure& measure : kAllMeasures) {
    Json one = of_look(measure.look);
    one["key"] = measure.key;
    result["measures"].push_back(std::move(one));
  }
  for (const Series& series : series_of(study, configurations)) {
    if (!series.seconds.empty()) result["series"].push_back(of_series(series));
  }
  for (const Json& run : list(study, "runs")) {
    const size_t configuration = index_of(configurations, text(run, "configuration"));
    result["runs"].push_back(of_run(run, configuration));
  }
  for (const Json& row : list(member(study, "summary"), "table")) {
    const size_t configuration = index_of(configurations, text(row, "configuration"));
    if (configuration == configurations.size()) continue;
    result["medians"].push_back({{"configuration", configuration},
                                 {"seconds", or_null(figure(row, "seconds"))},
                                 {"peak", or_null(figure(row, "peak_resident_bytes"))},
                                 {"overflow", or_null(figure(row, "peak_overflow_bytes"))},
                                 {"pareto", flag(row, "on_pareto")}});
  }
  result["smallest_cap"] =
      or_null(figure(member(study, "summary"), "smallest_cap_without_loss_bytes"));
  return result;
}

}  // namespace rdmalloc::cli::report
