// The command line: the sub-commands and flags as CLI11 knows them, and the request that a parsed
// line makes. --help and the man pages are made from the same App (manual_page.h).
#pragma once

#include <memory>
#include <string>

#include "allocator/tools/run/run.h"
#include "allocator/tools/run/shm_plan.h"
#include "allocator/tools/study/study.h"
#include "allocator/tools/top/stats.h"
#include "allocator/tools/top/top.h"
#include "allocator/tools/trace/trace.h"

namespace CLI {
class App;
}

namespace rdmalloc::cli {

struct Request {
  RunRequest run;
  ShmPlanRequest shm_plan;
  TopRequest top;
  StatsRequest stats;
  study::StudyRequest study;
  TraceRecordRequest record;
  TraceReplayRequest replay;
  std::string trace, text;    // of trace import, text and info: files; text may be "-"
  bool with_threads = false;  // trace cost: measure with a second thread
  bool json = false;
  bool all = false;  // doctor explains what is ok, too
  bool markdown = false;
  std::string page;  // the man page asked for
};

// `request` must outlive the App.
std::unique_ptr<CLI::App> make_command_line(Request& request);

// Splits "run [options] [--] PROGRAM ARGS...", and likewise for other commands that take a program:
// the program's words go unchanged into its part of the request, and the rest is returned. Other
// lines are returned as they are.
std::vector<std::string> take_program(int argc, char** argv, const CLI::App& app, Request& request);

}  // namespace rdmalloc::cli
