// Shows a study's progress on standard error: one line that is rewritten on a terminal, with the
// time to go; otherwise a line for each run; or nothing if it should be quiet.
#pragma once

#include <cstdint>
#include <string>

#include "allocator/tools/study/configurations.h"
#include "allocator/tools/study/program_run.h"

namespace rdmalloc::cli::study {

class Progress {
 public:
  Progress(bool quiet, size_t runs);
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void begin(const std::string& configuration, unsigned repeat, unsigned repeats);
  void tick();  // to be called now and then during a run
  void end(const Run& run);
  void drop(size_t runs) { runs_ -= runs; }  // runs that will not happen after all

  // Prints a sentence that stays.
  void say(const std::string& sentence);

 private:
  void draw(uint64_t now_ns);
  void clear();

  bool quiet_;
  bool on_terminal_;
  std::string now_;              // what is running
  uint64_t first_begin_ns_ = 0;  // of all runs
  uint64_t begin_ns_ = 0;        // of this one
  uint64_t drawn_ns_ = 0;        // 0: there is no line
  size_t runs_;
  size_t done_ = 0;
};

}  // namespace rdmalloc::cli::study
