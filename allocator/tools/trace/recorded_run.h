// Runs a program under the recorder, and waits for its end.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace rdmalloc::cli {

// The folder for the raw files of a run; goes away with this, and what is in it.
class RawFolder {
 public:
  // Beside the trace that is to be made of it. Throws Refusal.
  explicit RawFolder(const std::string& trace);
  ~RawFolder();
  RawFolder(const RawFolder&) = delete;
  RawFolder& operator=(const RawFolder&) = delete;

  const std::string& path() const { return path_; }

  // Once the program has ended: space on the disk for the trace.
  void give_space() const;

 private:
  void keep_space();

  std::string path_;
};

struct RecordedRun {
  std::string program;               // the file
  std::vector<std::string> command;  // its words
  std::string recorder;              // the library
  std::string preloads;              // LD_PRELOAD without it
  std::string folder;                // for its raw files; empty: run without the recorder
  uint64_t limit = 0;
  int output = -1;  // its standard output; -1: ours
};

struct RunEnd {
  int status = 0;    // as waitpid tells it
  double cpu_s = 0;  // of the program and all processes that it waited for
  double wall_s = 0;
};

// The terminal's signals are the program's; those that end us go on to it. Throws Refusal when it
// could not be started, as `run` does.
RunEnd run_recorded(const RecordedRun& run);

// The exit status, or this process dies as that one did.
int end_as(int status);

// What recording a call costs, in seconds of processor time, measured now: in a process with one
// thread, and in one with several. 0: it could not be measured.
double cost_of_a_call(const RecordedRun& like, bool threads);

}  // namespace rdmalloc::cli
