// `rdmalloc stats PID`: what a running process says of its heap, without its help.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace rdmalloc::cli {

// `process` must outlive the App.
void add_stats_flags(CLI::App& command, int& process);

// Throws Refusal when the process is not there, says nothing, or is not ours to ask.
int stats(int process, bool json);

}  // namespace rdmalloc::cli
