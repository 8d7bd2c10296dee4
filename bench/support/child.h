// Starts a program under one of the allocators and reads what it says.
#pragma once

#include <string>
#include <vector>

#include "bench/support/allocator.h"

namespace rdmalloc::bench {

struct Outcome {
  bool started = false;  // and ended with status 0
  double cpu_s = 0;      // user and system time of the whole process, as wait4 reports it
  double wall_s = 0;     // from spawn to end
  double ended_s = 0;    // on CLOCK_MONOTONIC, when its end was known
  // The most that it, or a process it waited for, had resident, as wait4 reports it. Never below
  // what this process itself had when it started the child.
  double peak_bytes = 0;
  std::string output;  // standard output

  // The number after `key` in a line "key 123" or "  "key": 123,"; -1 when there is none.
  double number(const std::string& key) const;
};

// `environment` has entries NAME=value that win over the inherited ones. To our own runs are also
// added the entries of BENCH_OURS_ENV (separated by spaces), for trying options on us alone.
// `piped`: a file whose contents it reads from a pipe on standard input, which is inherited else.
Outcome run(const std::vector<std::string>& command, const Allocator& allocator,
            const std::vector<std::string>& environment = {}, const std::string& piped = {});

// The command line of a program that lies beside this one.
std::vector<std::string> sibling(const std::string& program,
                                 const std::vector<std::string>& arguments);

// Where PATH has this program; empty when it is not installed.
std::string find_program(const std::string& name);

inline std::vector<std::string> workload(const std::vector<std::string>& arguments) {
  return sibling("bench_workload", arguments);
}

}  // namespace rdmalloc::bench
