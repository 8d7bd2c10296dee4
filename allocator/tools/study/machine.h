// The machine that a study was made on.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace rdmalloc::cli::study {

struct Machine {
  std::string cpu;
  unsigned cores = 0;  // that this process may use
  uint64_t memory_bytes = 0;
  std::string kernel;
  std::optional<uint64_t> memlock_bytes;  // nothing: unlimited
  std::optional<double> load;             // average of the last minute
};

Machine this_machine();

}  // namespace rdmalloc::cli::study
