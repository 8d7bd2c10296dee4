// Checks that the library works here: this command starts itself again under the library, allocates
// in every way, from before the first constructor on, and counts what lies in the window.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace rdmalloc::cli {

struct ProbeResult {
  std::string failure;  // why there are no numbers; empty when there are
  uint64_t asked = 0;
  uint64_t in_window = 0;
  uint64_t threads = 0;
  std::map<std::string, uint64_t> stats;  // as in the report
  std::string limited_by;
  std::string monitor;      // of foreign memory: its name
  std::string monitor_why;  // a sentence
  bool took() const { return failure.empty() && asked > 0 && asked == in_window; }
};

// Starts the probe with the options that the environment has now. Does not throw.
ProbeResult run_probe(const std::string& library);

// The part that runs under the library, a hidden sub-command: writes the counts and the report to
// standard output.
int probe();

}  // namespace rdmalloc::cli
