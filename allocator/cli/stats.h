// `rdmalloc stats PID`: what a running process says of its heap, without its help.
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

// Throws Refusal when the process is not there, says nothing, or is not ours to ask.
int stats(const StatsRequest& request, bool json);

}  // namespace rdmalloc::cli
