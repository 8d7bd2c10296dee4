// `rdmalloc study`: runs a program under several allocators and policies, and reports what each
// costs in memory and time.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace rdmalloc::cli::study {

struct StudyRequest {
  std::vector<std::string> command;  // the program and its arguments
  std::string trace;                 // replay this instead
  std::string allocators;            // comma-separated; empty: all installed ones
  std::string caps = "25%,50%,75%,90%,100%";
  std::vector<std::string> settings;  // NAME=VALUE: each adds a configuration of ours
  int repeats = 3;
  double rate_hz = 100;
  double linger_seconds = 2;
  std::optional<double> timeout_seconds;
  std::string input = "/dev/null";
  std::string output;  // empty: a new folder is named automatically
  bool force = false;
  bool quiet = false;
};

void add_study_flags(CLI::App& app, StudyRequest& request);

// Runs every configuration in turn, as often as requested, and writes the results. Returns the exit
// status. Throws Refusal if nothing was run.
int run_study(const StudyRequest& request);

inline constexpr int kExitSomeFailed = 3;     // some runs did not exit with 0
inline constexpr int kExitInterrupted = 130;  // a shell's status after Ctrl-C

}  // namespace rdmalloc::cli::study
