// `rdmalloc trace record`: runs a program under the recorder and packs what it recorded.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace rdmalloc::cli {

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

}  // namespace rdmalloc::cli
