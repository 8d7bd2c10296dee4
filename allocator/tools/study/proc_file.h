// Files of /proc/PID, kept open and read again and again, because opening is half of the cost.
// Above a certain number, which leaves descriptors to others, they are opened each time. Do not use
// it for files that are bound to the memory map at the time of opening (maps, smaps): they end with
// an exec.
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

  // Its current text, valid until the thread's next read; empty: the process is gone or not ours.
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
  uint64_t start = 0;  // clock ticks since boot: identifies a process whose number is reused
  uint64_t image = 0;  // its stack's start address: changes with each exec; 0: not visible
};
// Nothing: malformed. The program's name may have blanks and parentheses.
std::optional<ProcStat> parse_stat(std::string_view stat);

// The bytes after "VmLck:" in /proc/PID/status, or after "Pss:" in smaps_rollup.
std::optional<uint64_t> parse_kib_line(std::string_view text, std::string_view key);

// The last number that the kernel gave to a process or thread, from /proc/loadavg: while it stays
// the same, there is no new one. 0: malformed.
uint64_t parse_last_number(std::string_view loadavg);

}  // namespace rdmalloc::cli::study
