// One process of the program: its current figures and its peaks. Used by the sampling thread.
// Nothing here stops the process or needs its cooperation.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "allocator/tools/study/proc_file.h"
#include "allocator/tools/top/counter_reader.h"

namespace rdmalloc::cli::study {

// What is known about a process. What could not be read yet is 0, or nothing.
struct ProcessReading {
  uint64_t resident = 0;
  uint64_t locked = 0;  // VmLck
  uint64_t minor_faults = 0;
  uint64_t major_faults = 0;
  std::optional<uint64_t> proportional;  // Pss: shared pages divided among their processes
  std::optional<CounterReader::Now> counters;
};

class WatchedProcess {
 public:
  // `wants_counters`: the process was started under the library.
  WatchedProcess(pid_t pid, bool wants_counters);

  const ProcessReading& reading() const { return reading_; }
  uint64_t peak_resident() const { return peak_resident_; }

  // Each of these reads one file; the most expensive comes last. False: nothing (more) to read. The
  // first returns false for a zombie.
  bool read_resident();
  bool read_faults();        // also detects that it has become another program (exec)
  bool read_peak();          // VmHWM, VmLck
  bool read_proportional();  // walks its page tables

  // Whether its number is still taken: it lives, is ending, or is a zombie.
  bool has_number() const { return !stat_.read().empty(); }

  // Looks for its counter page if it has none yet; after each failure the interval to the next look
  // doubles.
  void look_for_counters(uint64_t now_ns);

  // The counter pages of all programs that this process has been, the latest last.
  const std::vector<CounterReader>& counter_pages() const { return pages_; }

 private:
  pid_t pid_;
  bool wants_counters_;
  ProcFile statm_;
  ProcFile stat_;
  ProcFile status_;
  ProcessReading reading_;
  uint64_t peak_resident_ = 0;
  uint64_t image_ = 0;
  bool has_page_ = false;  // of its current program
  uint64_t next_look_ns_ = 0;
  uint64_t pause_ns_;
  std::vector<CounterReader> pages_;
};

}  // namespace rdmalloc::cli::study
