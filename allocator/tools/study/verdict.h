// A study's findings in words. They say what the figures say, even if that is bad for us. A
// comparison has three outcomes: more, less, or cannot tell; the last comes with the measurement,
// its uncertainty, and what would settle it (comparison.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "allocator/tools/study/machine.h"
#include "allocator/tools/study/summary.h"

namespace rdmalloc::cli::study {

// A verdict in a few words, and its figures, for the head of the report.
struct Tile {
  std::string verdict, figures;
};

struct Verdict {
  Tile memory, time, cap;
  std::vector<std::string> answers;
  std::optional<uint64_t> smallest_cap_without_loss;
};

Verdict judge(const std::vector<Row>& rows, const Machine& machine);

}  // namespace rdmalloc::cli::study
