// `rdmalloc trace`: allocation traces, each verb a sub-command of its own. The verbs are beside
// this file: trace_record records a program's run, trace_replay runs a recorded trace under an
// allocator, trace_files makes and shows traces.
#pragma once

#include <string>

#include "allocator/tools/trace/files.h"
#include "allocator/tools/trace/record.h"
#include "allocator/tools/trace/replay.h"

namespace CLI {
class App;
}

namespace rdmalloc::cli {

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
