// The plan of a study, completed and checked before anything is run or written.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "allocator/tools/study/configurations.h"
#include "allocator/tools/study/study.h"

namespace rdmalloc::cli::study {

struct StudyPlan {
  std::string program;  // the file
  std::vector<std::string> command;
  std::vector<Configuration> configurations;  // without caps
  std::optional<Allocator> ours;
  std::vector<Cap> caps;
  std::vector<std::string> notes;
};

// Throws Refusal, or another std::runtime_error with a message.
StudyPlan make_plan(const StudyRequest& request);

}  // namespace rdmalloc::cli::study
