// Shows a study's progress on standard error: one line that is overwritten on a terminal, otherwise
// a line for each run, or nothing if it should be quiet.
#pragma once

#include <string>

#include "allocator/cli/study/configurations.h"
#include "allocator/cli/study/program_run.h"

namespace rdmalloc::cli::study {

class Progress {
 public:
  Progress(bool quiet, size_t runs);
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void begin(const std::string& configuration, unsigned repeat, unsigned repeats);
  void end(const Run& run);
  void drop(size_t runs) { runs_ -= runs; }  // runs that will not happen after all

  // Prints a sentence that stays.
  void say(const std::string& sentence);

 private:
  void clear();

  bool quiet_;
  bool on_terminal_;
  bool drawn_ = false;
  size_t runs_;
  size_t done_ = 0;
};

}  // namespace rdmalloc::cli::study
