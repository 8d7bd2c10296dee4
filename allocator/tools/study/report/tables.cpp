#include "allocator/tools/study/report/tables.h"

#include <map>

#include "allocator/tools/study/report/html.h"
#include "allocator/tools/text.h"

namespace rdmalloc::cli::report {
namespace {

using Kind = Table::Kind;
using Column = Table::Column;

constexpr Column kSummary[] = {
    {"seconds", "time", Kind::kSeconds},
    {"seconds_spread", "spread", Kind::kSeconds},
    {"time_against_glibc", "time / glibc", Kind::kRatio},
    {"peak_resident_bytes", "peak resident", Kind::kBytes},
    {"peak_against_glibc", "peak / glibc", Kind::kRatio},
    {"mean_resident_bytes", "mean resident", Kind::kBytes},
    {"peak_live_bytes", "peak live", Kind::kBytes},
    {"peak_held_bytes", "peak held", Kind::kBytes},
    {"held_to_live", "held / live", Kind::kRatio},
    {"peak_overflow_bytes", "peak overflow", Kind::kBytes},
};

constexpr Column kRuns[] = {
    {"seconds", "time", Kind::kSeconds},
    {"user_seconds", "user", Kind::kSeconds},
    {"system_seconds", "system", Kind::kSeconds},
    {"peak_resident_bytes", "peak resident", Kind::kBytes},
    {"peak_proportional_bytes", "peak proportional", Kind::kBytes},
    {"mean_resident_bytes", "mean resident", Kind::kBytes},
    {"peak_live_bytes", "peak live", Kind::kBytes},
    {"peak_held_bytes", "peak held", Kind::kBytes},
    {"peak_pinned_bytes", "peak pinned", Kind::kBytes},
    {"peak_overflow_bytes", "peak overflow", Kind::kBytes},
    {"minor_faults", "minor faults", Kind::kCount},
    {"major_faults", "major faults", Kind::kCount},
    {"processes", "processes", Kind::kCount},
    {"samples", "samples", Kind::kCount},
    {"samples_left_out", "left out", Kind::kCount},
    {"sampling_cpu_share", "sampling CPU", Kind::kPercent},
};

constexpr Column kPhases[] = {
    {"entered", "entered", Kind::kCount},
    {"seconds", "time", Kind::kSeconds},
    {"peak_live_bytes", "peak live", Kind::kBytes},
    {"peak_held_bytes", "peak held", Kind::kBytes},
    {"peak_pinned_bytes", "peak pinned", Kind::kBytes},
    {"peak_overflow_bytes", "peak overflow", Kind::kBytes},
};

std::string label_of(const std::vector<Configuration>& configurations, const std::string& name) {
  const size_t index = index_of(configurations, name);
  return index < configurations.size() ? configurations[index].label : name;
}

std::string whole(const Figure& number) { return number ? format("%.0f", *number) : ""; }

// What the runs of one configuration report for each phase, in order of first appearance.
using PhaseRuns = std::vector<std::pair<std::string, std::map<std::string, std::vector<double>>>>;

void add_phase(PhaseRuns* phases, const Json& phase) {
  const std::string name = text(phase, "name");
  auto place = phases->begin();
  while (place != phases->end() && place->first != name) ++place;
  if (place == phases->end()) place = phases->insert(place, {name, {}});
  for (const Column& column : kPhases) {
    if (const Figure value = figure(phase, column.key)) place->second[column.key].push_back(*value);
  }
}

// As markup, with each figure on the line of its percent sign.
std::string sentence(std::string text) {
  for (size_t at = 0; (at = text.find(" %", at)) != std::string::npos;) {
    text.replace(at, 1, "\u00a0");
  }
  return escaped(text);
}

std::string bytes_text(const Figure& bytes) {
  if (!bytes) return "";
  constexpr double kMiB = 1 << 20, kGiB = 1 << 30;
  return *bytes < kGiB ? format("%.1f MiB", *bytes / kMiB) : format("%.1f GiB", *bytes / kGiB);
}

}  // namespace

std::string tiles(const Json& study) {
  const Json& all = member(member(study, "summary"), "tiles");
  std::string html;
  for (const auto& [key, title] :
       {std::pair("memory", "Memory"), {"time", "Time"}, {"cap", "Recommended cap"}}) {
    const std::string verdict = text(member(all, key), "verdict");
    html += std::string("<article><h2>") + title + "</h2><p class=\"verdict\">" +
            sentence(verdict.empty() ? "not known" : verdict) + "</p><p>" +
            sentence(text(member(all, key), "figures")) + "</p></article>\n";
  }
  return html;
}

std::string answers(const Json& study) {
  std::string html;
  for (const std::string& answer : texts(member(study, "summary"), "answers")) {
    html += "<p>" + sentence(answer) + "</p>\n";
  }
  return html.empty() ? "<p>No answer: no run went well enough to be compared.</p>\n" : html;
}

std::string what_was_run(const Json& study) {
  std::string line = count_text(configurations_of(study).size(), "configuration");
  if (const Figure repeats = figure(study, "repeats")) {
    line += ", " + count_text(static_cast<size_t>(*repeats), "run") + " each";
  }
  if (const Figure rate = figure(study, "rate_hz")) line += ", sampled at " + whole(rate) + " Hz";
  const std::string date = text(study, "date"), version = text(study, "rdmalloc");
  if (!version.empty()) line += " \xc2\xb7 rdmalloc " + version;
  if (!date.empty()) line += " \xc2\xb7 " + date;
  return escaped(line);
}

std::string failed_runs(const Json& study) {
  const auto configurations = configurations_of(study);
  std::string html;
  for (const Json& run : list(study, "runs")) {
    if (!run.is_object() || flag(run, "ok")) continue;
    const std::string outcome = text(run, "outcome");
    html += "<li>" + escaped(label_of(configurations, text(run, "configuration"))) + ", run " +
            whole(figure(run, "repeat")) + ": " +
            escaped(outcome.empty() ? "outcome not known" : outcome) + "</li>\n";
  }
  return html;
}

std::string summary_table(const Json& study) {
  const auto configurations = configurations_of(study);
  Table table("Configurations: medians of the runs that went well",
              {"configuration", "runs ok", "Pareto"}, kSummary);
  for (const Json& row : list(member(study, "summary"), "table")) {
    const std::string name = text(row, "configuration");
    size_t runs = 0;
    for (const Json& run : list(study, "runs")) runs += text(run, "configuration") == name ? 1 : 0;
    const std::string of = runs > 0 ? "\u00a0of\u00a0" + std::to_string(runs) : "";
    table.row({label_of(configurations, name), whole(figure(row, "runs_ok")) + of,
               flag(row, "on_pareto") ? "yes" : ""},
              row);
  }
  return table.html();
}

std::string runs_table(const Json& study) {
  const auto configurations = configurations_of(study);
  Table table("Every run", {"configuration", "run", "outcome"}, kRuns);
  for (const Json& run : list(study, "runs")) {
    table.row({label_of(configurations, text(run, "configuration")), whole(figure(run, "repeat")),
               text(run, "outcome")},
              run);
  }
  return table.html();
}

std::string phases_table(const Json& study) {
  Table table("Phases: medians of the runs that went well", {"configuration", "phase"}, kPhases);
  for (const Configuration& configuration : configurations_of(study)) {
    PhaseRuns phases;
    for (const Json& run : list(study, "runs")) {
      if (text(run, "configuration") != configuration.name || !flag(run, "ok")) continue;
      for (const Json& phase : list(run, "phases")) add_phase(&phases, phase);
    }
    for (const auto& [name, columns] : phases) {
      std::vector<Figure> figures;
      for (const Column& column : kPhases) {
        const auto found = columns.find(column.key);
        figures.push_back(found == columns.end() ? Figure() : Figure(median(found->second)));
      }
      table.row({configuration.label, name}, figures);
    }
  }
  return table.html();
}

std::string machine(const Json& study) {
  const Json& facts = member(study, "machine");
  std::string html;
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty())
      html += std::string("<dt>") + name + "</dt><dd>" + escaped(value) + "</dd>\n";
  };
  add("Command", command_line(study));
  add("Processor", text(facts, "cpu"));
  add("Cores", whole(figure(facts, "cores")));
  add("Memory", bytes_text(figure(facts, "memory_bytes")));
  add("Memlock limit",
      facts.is_object() && facts.contains("memlock_bytes") && facts["memlock_bytes"].is_null()
          ? "unlimited"
          : bytes_text(figure(facts, "memlock_bytes")));
  add("Kernel", text(facts, "kernel"));
  return html;
}

std::string notes(const Json& study) {
  std::string html;
  for (const std::string& note : texts(member(study, "summary"), "notes")) {
    html += "<li>" + escaped(note) + "</li>\n";
  }
  return html;
}

}  // namespace rdmalloc::cli::report
