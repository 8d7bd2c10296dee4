#include "allocator/tools/study/document.h"

#include <cmath>

#include "allocator/tools/study/summary.h"
#include "allocator/tools/study/verdict.h"
#include "allocator/tools/text.h"

namespace rdmalloc::cli::study {
namespace {

using nlohmann::json;

constexpr size_t kMostPoints = 1200;  // of a series: more than a chart can show

template <typename Value>
json or_null(const std::optional<Value>& value) {
  return value ? json(*value) : json(nullptr);
}

json whole_or_null(const std::optional<double>& value) {
  return value ? json(static_cast<uint64_t>(std::llround(*value))) : json(nullptr);
}

json median_or_null(const std::optional<Spread>& value) {
  return value ? whole_or_null(value->median) : json(nullptr);
}

template <typename Range, typename Convert>
json list_of(const Range& range, Convert convert) {
  json list = json::array();
  for (const auto& entry : range) list.push_back(convert(entry));
  return list;
}

json machine_of(const Machine& machine) {
  return {{"cpu", machine.cpu},
          {"cores", machine.cores},
          {"memory_bytes", machine.memory_bytes},
          {"kernel", machine.kernel},
          {"memlock_bytes", or_null(machine.memlock_bytes)},
          {"load", or_null(machine.load)}};
}

json configuration_of(const Configuration& configuration) {
  return {{"name", configuration.name},
          {"label", configuration.label},
          {"allocator", configuration.allocator.name},
          {"pinned", configuration.pinned},
          {"cap_bytes", or_null(configuration.cap_bytes)}};
}

json phase_of(const PhaseCounters& phase) {
  return {{"name", phase.name},
          {"entered", phase.entered},
          {"seconds", static_cast<double>(phase.ns) / 1e9},
          {"peak_live_bytes", phase.peak_live},
          {"peak_held_bytes", phase.peak_held},
          {"peak_pinned_bytes", phase.peak_pinned}};
}

json counted(const Samples& samples, uint64_t value) {
  return samples.has_counters ? json(value) : json(nullptr);
}

// The members of a run in runs.csv.
constexpr const char* kColumns[] = {"configuration",
                                    "repeat",
                                    "outcome",
                                    "ok",
                                    "seconds",
                                    "user_seconds",
                                    "system_seconds",
                                    "processes",
                                    "peak_resident_bytes",
                                    "mean_resident_bytes",
                                    "peak_live_bytes",
                                    "peak_held_bytes",
                                    "peak_pinned_bytes",
                                    "peak_overflow_bytes",
                                    "minor_faults",
                                    "major_faults",
                                    "samples",
                                    "sampling_cpu_share"};

json run_of(const Run& run) {
  const Samples& samples = run.samples;
  return {{"configuration", run.configuration},
          {"repeat", run.repeat},
          {"outcome", run.outcome},
          {"ok", run.ok},
          {"seconds", run.seconds},
          {"user_seconds", run.user_seconds},
          {"system_seconds", run.system_seconds},
          {"processes", samples.processes},
          {"peak_resident_bytes", samples.peak_resident},
          {"peak_proportional_bytes", or_null(samples.peak_proportional)},
          {"peak_live_bytes", counted(samples, samples.peak_live)},
          {"peak_held_bytes", counted(samples, samples.peak_held)},
          {"peak_pinned_bytes", samples.peak_pinned},
          {"peak_overflow_bytes", counted(samples, samples.peak_overflow)},
          {"mean_resident_bytes", whole_or_null(mean_resident(samples.series))},
          {"minor_faults", samples.minor_faults},
          {"major_faults", samples.major_faults},
          {"samples", samples.series.size()},
          {"samples_left_out", samples.left_out},
          {"sampling_cpu_share", run.sampling_cpu_share},
          {"phases", list_of(samples.phases, phase_of)}};
}

json series_of(const Run& run) {
  const std::vector<Sample> series = thinned(run.samples.series, kMostPoints);
  json all = {{"configuration", run.configuration},
              {"repeat", run.repeat},
              {"seconds", list_of(series, [](const Sample& one) { return one.seconds; })}};
  for (const auto& [name, value, is_counter] : kSampleFields) {
    const bool is_known = run.samples.has_counters || !is_counter;
    const auto of_sample = [member = value](const Sample& one) { return one.*member; };
    all[name] = is_known ? list_of(series, of_sample) : json(nullptr);
  }
  return all;
}

json row_of(const Row& row) {
  return {{"configuration", row.configuration.name},
          {"runs_ok", row.runs_ok},
          {"seconds", row.seconds ? json(row.seconds->median) : json(nullptr)},
          {"seconds_spread", row.seconds ? json(row.seconds->width()) : json(nullptr)},
          {"cpu_seconds", row.cpu_seconds ? json(row.cpu_seconds->median) : json(nullptr)},
          {"peak_resident_bytes", median_or_null(row.peak_resident)},
          {"mean_resident_bytes", median_or_null(row.mean_resident)},
          {"peak_live_bytes", whole_or_null(row.peak_live)},
          {"peak_held_bytes", whole_or_null(row.peak_held)},
          {"held_to_live", or_null(row.held_to_live)},
          {"time_against_glibc", or_null(row.time_against_glibc)},
          {"peak_against_glibc", or_null(row.peak_against_glibc)},
          {"peak_overflow_bytes", whole_or_null(row.peak_overflow)},
          {"on_pareto", row.on_pareto}};
}

json tile_of(const Tile& tile) { return {{"verdict", tile.verdict}, {"figures", tile.figures}}; }

json summary_of(const Study& study) {
  const std::vector<Row> rows = summarize(study.configurations, study.runs);
  const Verdict verdict = judge(rows, study.machine);
  return {{"tiles",
           {{"memory", tile_of(verdict.memory)},
            {"time", tile_of(verdict.time)},
            {"cap", tile_of(verdict.cap)}}},
          {"answers", verdict.answers},
          {"table", list_of(rows, row_of)},
          {"smallest_cap_without_loss_bytes", or_null(verdict.smallest_cap_without_loss)},
          {"notes", study.notes}};
}

std::string csv_value(const json& value) {
  if (value.is_null()) return "";
  if (value.is_boolean()) return value ? "1" : "0";
  if (value.is_number_float()) return format("%.6f", value.get<double>());
  return value.is_string() ? csv_field(value) : value.dump();
}

}  // namespace

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  return "\"" + escaped_by(text, {{'"', "\"\""}}) + "\"";
}

std::string runs_header() { return joined({std::begin(kColumns), std::end(kColumns)}, ",") + "\n"; }

std::string runs_line(const Run& run) {
  const json all = run_of(run);
  std::vector<std::string> fields;
  for (const char* column : kColumns) fields.push_back(csv_value(all[column]));
  return joined(fields, ",") + "\n";
}

std::string samples_header() {
  std::string line = "configuration,repeat,seconds";
  for (const SampleField& field : kSampleFields) line += std::string(",") + field.name;
  return line + "\n";
}

std::string samples_lines(const Run& run) {
  std::string lines;
  const std::string start = csv_field(run.configuration) + "," + std::to_string(run.repeat) + ",";
  for (const Sample& sample : run.samples.series) {
    lines += start + csv_value(sample.seconds);
    for (const auto& [name, value, is_counter] : kSampleFields) {
      const bool is_known = run.samples.has_counters || !is_counter;
      lines += "," + (is_known ? std::to_string(sample.*value) : "");
    }
    lines += "\n";
  }
  return lines;
}

json as_document(const Study& study) {
  return {{"format", "rdmalloc-study"},
          {"version", 1},
          {"command", study.command},
          {"date", study.date},
          {"rdmalloc", RDMALLOC_VERSION},
          {"machine", machine_of(study.machine)},
          {"rate_hz", study.rate_hz},
          {"repeats", study.repeats},
          {"configurations", list_of(study.configurations, configuration_of)},
          {"runs", list_of(study.runs, run_of)},
          {"series", list_of(study.runs, series_of)},
          {"summary", summary_of(study)}};
}

}  // namespace rdmalloc::cli::study
