// The parts of the page that are words and tables. Each is HTML, and empty if there is nothing to
// say.
#pragma once

#include <string>

#include "allocator/tools/study/report/data.h"

namespace rdmalloc::cli::report {

std::string tiles(const Json& study);  // memory, time, cap: a verdict and its figures each
std::string answers(const Json& study);
std::string what_was_run(const Json& study);  // one line under the title
std::string failed_runs(const Json& study);
std::string summary_table(const Json& study);
std::string runs_table(const Json& study);
std::string phases_table(const Json& study);
std::string machine(const Json& study);
std::string notes(const Json& study);

}  // namespace rdmalloc::cli::report
