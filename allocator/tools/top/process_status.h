// What /proc says of a process, parsed from its text. The kernel writes it, except the name, which
// the process chooses and which may hold any byte.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

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

// /proc/PID/status. Nothing when it is not one.
std::optional<ProcessStatus> parse_status(std::string_view text);

// The soft limit on locked memory in /proc/PID/limits: bytes, or os::kNoLimit.
std::optional<uint64_t> parse_memlock(std::string_view limits);

}  // namespace rdmalloc::cli
