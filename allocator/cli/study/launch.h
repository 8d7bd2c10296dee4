// Starts the program of a run, and tells to the microsecond when it began and when it ended.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "allocator/cli/study/interrupts.h"

namespace rdmalloc::cli::study {

struct Launch {
  std::string program;  // the file
  std::vector<std::string> command;
  std::vector<std::pair<std::string, std::string>> variables;  // over this process's own
  std::string input, output, errors;                           // files
};

// A child of ours, in a process group of its own so that the terminal's Ctrl-C is ours alone, that
// the kernel kills when we die.
class RunningProgram {
 public:
  // Throws Refusal when it cannot be started.
  RunningProgram(const Launch& launch, const Interrupts& interrupts);
  ~RunningProgram();
  RunningProgram(const RunningProgram&) = delete;
  RunningProgram& operator=(const RunningProgram&) = delete;

  pid_t pid() const { return pid_; }
  uint64_t start_ns() const { return start_ns_; }

  // Readable once it has ended. It stays a zombie until somebody waits for it.
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
