// A study as the JSON document of study.json, from which the report is made, and as tables.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "allocator/tools/study/configurations.h"
#include "allocator/tools/study/machine.h"
#include "allocator/tools/study/program_run.h"

namespace rdmalloc::cli::study {

// A study: the request, the runs, and the results.
struct Study {
  std::vector<std::string> command;
  std::string date;
  Machine machine;
  double rate_hz = 0;
  unsigned repeats = 0;
  std::vector<Configuration> configurations;
  std::vector<Run> runs;
  std::vector<std::string> notes;
};

// null: not known for this allocator.
nlohmann::json as_document(const Study& study);

// runs.csv has a line for each run, samples.csv one for each sample, after a header line. Fields
// with commas, quotes or line ends are quoted (RFC 4180); unknown ones are empty.
std::string runs_header();
std::string runs_line(const Run& run);
std::string samples_header();
std::string samples_lines(const Run& run);

std::string csv_field(const std::string& text);

}  // namespace rdmalloc::cli::study
