// Starts the program of a run, and measures its start and end to the microsecond.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "allocator/tools/interrupts.h"

namespace rdmalloc::cli::study {

struct Launch {
  std::string program;  // the file
  std::vector<std::string> command;
  std::vector<std::pair<std::string, std::string>> variables;  // override this process's own
  std::string preloads;                                        // LD_PRELOAD; empty: none
  std::string input, output, errors;                           // files
};

// Runs in its own process group, so that only we get the terminal's Ctrl-C. The kernel kills it
// when we die.
class RunningProgram {
 public:
  // Throws Refusal if it cannot be started.
  RunningProgram(const Launch& launch, const Interrupts& interrupts);
  ~RunningProgram();
  RunningProgram(const RunningProgram&) = delete;
  RunningProgram& operator=(const RunningProgram&) = delete;

  pid_t pid() const { return pid_; }
  uint64_t start_ns() const { return start_ns_; }

  // Readable once it has ended. It stays a zombie until someone waits for it.
  int ended_descriptor() const { return ended_descriptor_; }
  bool has_ended() const { return end_ns_.load() != 0; }
  uint64_t end_ns() const { return end_ns_; }

 private:
  void watch();

  pid_t pid_ = -1;
  uint64_t start_ns_ = 0;
  int ended_descriptor_ = -1;
  std::atomic<uint64_t> end_ns_{0};
  std::thread watcher_;
};

}  // namespace rdmalloc::cli::study
