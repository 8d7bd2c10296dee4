// `rdmalloc trace`: allocation traces, each verb a sub-command of its own.
#pragma once

#include <string>
#include <vector>

#include "allocator/tools/run/option_flags.h"

namespace CLI {
class App;
}

namespace rdmalloc::cli {

// record: runs a program under the recorder and packs what it recorded.
struct TraceRecordRequest {
  std::string output;                // empty: PROGRAM.rdtrace in the current folder
  std::string limit = "1G";          // of what the recorder writes, for each process
  std::string process;               // pack the one of this name; empty: the one with most calls
  std::string under;                 // an allocator; empty: what the program has anyway
  bool all = false;                  // pack every process, each in a file of its own
  std::vector<std::string> command;  // the program and its arguments
};

void add_trace_record_flags(CLI::App& app, TraceRecordRequest& request);

// Returns the program's exit status, or dies by the signal that killed it; kExitProblem when the
// program ended well and the trace did not. Throws Refusal when the program was not started.
int trace_record(const TraceRecordRequest& request);

// What `trace record` starts to find out what recording costs: calls malloc, and prints the
// nanoseconds of processor time that a call took. With a second thread if there is an argument.
int trace_cost(bool threads);

// replay: runs a recorded trace under an allocator.
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

// Of replay, text and info: the trace was cut off, and what there is of it was shown.
inline constexpr int kExitTruncated = 3;
// Says so, and returns that.
int note_truncated(const std::string& file);

// Makes a trace from text; "-" is standard input.
int trace_import(const std::string& text, const std::string& file);

// Prints a trace as text; sums it up.
int trace_text(const std::string& file);
int trace_info(const std::string& file, bool json);

}  // namespace rdmalloc::cli
