// `rdmalloc stats PID`: the heap statistics of a running process, read without its help.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace rdmalloc::cli {

struct StatsRequest {
  int process = 0;
  bool numa = false;  // on which nodes its pages lie, too
};

// The request must outlive the App.
void add_stats_flags(CLI::App& command, StatsRequest& request);

// Throws Refusal if the process does not exist, shares no counters, or may not be inspected.
int stats(const StatsRequest& request, bool json);

}  // namespace rdmalloc::cli
