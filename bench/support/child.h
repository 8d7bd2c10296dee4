// Starts a program under one of the allocators and reads its output.
#pragma once

#include <string>
#include <vector>

#include "bench/support/allocator.h"

namespace rdmalloc::bench {

struct Outcome {
  bool started = false;  // and it exited with status 0
  double cpu_s = 0;      // user and system time of the whole process, as wait4 reports it
  double wall_s = 0;     // from spawn to exit
  double ended_s = 0;    // on CLOCK_MONOTONIC, when its exit was noticed
  // The peak resident size of the process, or of one it waited for, as wait4 reports it. At least
  // what this process itself had when it started the child.
  double peak_bytes = 0;
  std::string output;  // standard output

  // The number after `key` in a line "key 123" or "  "key": 123,"; -1 if there is none.
  double number(const std::string& key) const;
};

// `environment` has entries NAME=value that override the inherited ones. Our own runs also get the
// entries of BENCH_OURS_ENV (separated by spaces), to try options on ours alone. `piped`: a file
// that the program reads from a pipe on standard input; otherwise standard input is inherited.
Outcome run(const std::vector<std::string>& command, const Allocator& allocator,
            const std::vector<std::string>& environment = {}, const std::string& piped = {});

// The command line of a program in the same folder as this one.
std::vector<std::string> sibling(const std::string& program,
                                 const std::vector<std::string>& arguments);

// The program's path, searched in PATH; empty if it is not installed.
std::string find_program(const std::string& name);

inline std::vector<std::string> workload(const std::vector<std::string>& arguments) {
  return sibling("bench_workload", arguments);
}

}  // namespace rdmalloc::bench
