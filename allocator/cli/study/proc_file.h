// Files of /proc/PID, kept open and read again and again: half of what a reading costs is the
// opening. Beyond a number of them, which leaves descriptors to others, they are opened each time.
// Not those that belong to the program's memory as it was when they were opened (maps,
// smaps): they end with an exec.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace rdmalloc::cli::study {

class ProcFile {
 public:
  ProcFile(pid_t pid, const char* name);
  ~ProcFile();
  ProcFile(ProcFile&& other) noexcept;
  ProcFile& operator=(ProcFile&&) = delete;

  // Its text now, valid until the thread reads the next; empty: the process is gone or not ours.
  std::string_view read() const;

 private:
  std::string path_;
  int descriptor_;  // -1: not kept
};

// /proc/PID/statm.
struct ProcMemory {
  uint64_t mapped = 0;    // pages; 0: a zombie, or nothing to read
  uint64_t resident = 0;  // bytes; may be 0 for a small process, as the kernel counts roughly
};
ProcMemory parse_memory(std::string_view statm);

// /proc/PID/stat.
struct ProcStat {
  char state = '?';  // 'Z': a zombie
  pid_t parent = 0;
  uint64_t minor_faults = 0;
  uint64_t major_faults = 0;
  uint64_t start = 0;  // clock ticks after boot: tells a number that is used again apart
  uint64_t image = 0;  // where its stack began: another one after each exec; 0: may not be seen
};
// Nothing: malformed. The name of the program may have blanks and brackets.
std::optional<ProcStat> parse_stat(std::string_view stat);

// The bytes behind "VmLck:" in /proc/PID/status, or behind "Pss:" in smaps_rollup.
std::optional<uint64_t> parse_kib_line(std::string_view text, std::string_view key);

// The number that the kernel gave last to a process or thread, from /proc/loadavg: as long as it
// stays there is no new one. 0: malformed.
uint64_t parse_last_number(std::string_view loadavg);

}  // namespace rdmalloc::cli::study
