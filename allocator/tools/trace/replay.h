// `rdmalloc trace replay`: runs a recorded trace under an allocator.
#pragma once

#include <string>
#include <vector>

#include "allocator/tools/run/option_flags.h"

namespace CLI {
class App;
}

namespace rdmalloc::cli {

struct TraceReplayRequest {
  std::string file;
  std::string under = "rdmalloc";
  std::string touch = "all";
  bool check = false;
  bool times = false;
  unsigned repeat = 1;
  std::vector<Setting> settings;  // of rdmalloc's options
};

void add_trace_replay_flags(CLI::App& app, TraceReplayRequest& request);

// The program that replays, which lies beside this command. Throws Refusal when it is not there.
std::string find_replay();

// Does not return: the replay takes this process's place, or a Refusal is thrown.
int trace_replay(const TraceReplayRequest& request);

}  // namespace rdmalloc::cli
