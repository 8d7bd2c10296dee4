#include <array>
#include <cstdio>

#include "allocator/tools/study/document.h"
#include "allocator/tools/study/summary.h"

namespace rdmalloc::cli::study {
namespace {

std::string number(double value) {
  std::array<char, 40> text{};
  snprintf(text.data(), text.size(), "%.6f", value);
  return text.data();
}

std::string number(uint64_t value) { return std::to_string(value); }

// One CSV line; texts are quoted where necessary.
std::string line_of(const std::vector<std::string>& fields) {
  std::string line;
  for (const std::string& field : fields) line += (line.empty() ? "" : ",") + csv_field(field);
  return line + "\n";
}

}  // namespace

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

std::string runs_header() {
  return "configuration,repeat,outcome,ok,seconds,user_seconds,system_seconds,processes,"
         "peak_resident_bytes,mean_resident_bytes,peak_live_bytes,peak_held_bytes,"
         "peak_pinned_bytes,peak_overflow_bytes,minor_faults,major_faults,samples,"
         "sampling_cpu_share\n";
}

std::string runs_line(const Run& run) {
  const Samples& samples = run.samples;
  const std::optional<double> mean = mean_resident(samples.series);
  const auto known = [&](uint64_t value) { return samples.has_counters ? number(value) : ""; };
  return line_of({run.configuration, number(uint64_t{run.repeat}), run.outcome, run.ok ? "1" : "0",
                  number(run.seconds), number(run.user_seconds), number(run.system_seconds),
                  number(uint64_t{samples.processes}), number(samples.peak_resident),
                  mean ? number(static_cast<uint64_t>(*mean)) : "", known(samples.peak_live),
                  known(samples.peak_held), number(samples.peak_pinned),
                  known(samples.peak_overflow), number(samples.minor_faults),
                  number(samples.major_faults), number(uint64_t{samples.series.size()}),
                  number(run.sampling_cpu_share)});
}

std::string samples_header() {
  return "configuration,repeat,seconds,resident_bytes,live_bytes,held_bytes,pinned_bytes,"
         "overflow_bytes,faults\n";
}

std::string samples_lines(const Run& run) {
  std::string lines;
  const auto known = [&](uint64_t value) { return run.samples.has_counters ? number(value) : ""; };
  for (const Sample& sample : run.samples.series) {
    lines += line_of({run.configuration, number(uint64_t{run.repeat}), number(sample.seconds),
                      number(sample.resident), known(sample.live), known(sample.held),
                      number(sample.pinned), known(sample.overflow), number(sample.faults)});
  }
  return lines;
}

}  // namespace rdmalloc::cli::study
