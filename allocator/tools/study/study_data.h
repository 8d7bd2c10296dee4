// A study: the request, the runs, and the results.
#pragma once

#include <string>
#include <vector>

#include "allocator/tools/study/configurations.h"
#include "allocator/tools/study/machine.h"
#include "allocator/tools/study/program_run.h"

namespace rdmalloc::cli::study {

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

}  // namespace rdmalloc::cli::study
