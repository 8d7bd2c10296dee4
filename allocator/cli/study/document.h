// A study as the JSON document that study.json holds and the report is made from, and as tables.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "allocator/cli/study/study_data.h"

namespace rdmalloc::cli::study {

// null stands for what is not known of an allocator.
nlohmann::json as_document(const Study& study);

// runs.csv: a line for each run. samples.csv: a line for each sample. With a header line; fields
// with commas, quotes or line ends are quoted (RFC 4180), unknown ones are empty.
std::string runs_header();
std::string runs_line(const Run& run);
std::string samples_header();
std::string samples_lines(const Run& run);

std::string csv_field(const std::string& text);

}  // namespace rdmalloc::cli::study
