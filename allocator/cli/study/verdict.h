// What a study found out, in words. It says what the figures say, also where that is bad for us or
// nothing, and never that there is a difference where the repeats of both sides overlap.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "allocator/cli/study/summary.h"

namespace rdmalloc::cli::study {

struct Verdict {
  std::vector<std::string> answers;
  std::optional<uint64_t> smallest_cap_without_loss;
};

Verdict judge(const std::vector<Row>& rows);

}  // namespace rdmalloc::cli::study
