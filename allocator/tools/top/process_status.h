// What /proc says, parsed from its text. The kernel writes it, except the name, which
// the process chooses and which may hold any byte.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rdmalloc::cli {

struct ProcessStatus {
  std::string name;  // any bytes, as the process has it: not for a terminal, see printable()
  uint64_t user = 0;
  uint64_t effective_user = 0;
  bool has_ended = false;     // a zombie
  bool may_lock_all = false;  // CAP_IPC_LOCK is effective: the memlock limit does not bind it
  // Bytes. Nothing: the kernel does not tell, as of its own threads.
  std::optional<uint64_t> resident;
  std::optional<uint64_t> locked;  // VmLck: mlock
  std::optional<uint64_t> pinned;  // VmPin: registrations
};

// Nothing when `text` is not the number of a process, such as 0 or 5x.
std::optional<pid_t> parse_process(std::string_view text);

// The processes that a folder such as /proc lists. Nothing, and errno, when it cannot be read.
std::optional<std::vector<pid_t>> process_numbers(const std::string& proc);

// /proc/PID/status. Nothing when it is not one.
std::optional<ProcessStatus> parse_status(std::string_view text);

// The rest of the line that begins with `key`. Nothing: there is none.
std::optional<std::string_view> line_after(std::string_view text, std::string_view key);

// Cuts off the first word and the blanks before it.
std::string_view take_word(std::string_view* text);

// The bytes after "VmLck:" in /proc/PID/status, or after "Pss:" in smaps_rollup.
std::optional<uint64_t> parse_kib_line(std::string_view text, std::string_view key);

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

// The last number that the kernel gave to a process or thread, from /proc/loadavg: while it stays
// the same, there is no new one. 0: malformed.
uint64_t parse_last_number(std::string_view loadavg);

// The soft limit on locked memory in /proc/PID/limits: bytes, or os::kNoLimit.
std::optional<uint64_t> parse_memlock(std::string_view limits);

}  // namespace rdmalloc::cli
