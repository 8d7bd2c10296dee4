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

// import, text and info: traces made from text, shown as text, and summarized.
// Of replay, text and info: the trace was cut off, and what there is of it was shown.
inline constexpr int kExitTruncated = 3;

struct TraceImportRequest {
  std::string text;  // "-": standard input
  std::string file;
};
struct TraceTextRequest {
  std::string file;
};
struct TraceInfoRequest {
  std::string file;
  bool json = false;
};

void add_trace_import_flags(CLI::App& app, TraceImportRequest& request);
void add_trace_text_flags(CLI::App& app, TraceTextRequest& request);
void add_trace_info_flags(CLI::App& app, TraceInfoRequest& request);

int trace_import(const TraceImportRequest& request);
int trace_text(const TraceTextRequest& request);
int trace_info(const TraceInfoRequest& request);

struct TraceRequest {
  std::string verb;  // the sub-command of trace that was given
  TraceRecordRequest record;
  TraceReplayRequest replay;
  TraceImportRequest import;
  TraceTextRequest text;
  TraceInfoRequest info;
  bool cost_with_threads = false;
};

// `request` must outlive the App.
void add_trace_verbs(CLI::App& trace, TraceRequest& request);

// Does what the request's verb asks for. Returns the exit status, or throws a Refusal.
int trace(const TraceRequest& request);

}  // namespace rdmalloc::cli
