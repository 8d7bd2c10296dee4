// The processes of this machine, from /proc and their own counter pages. A process that ends
// meanwhile is left out; one that may not be inspected is only counted.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "allocator/tools/top/counter_reader.h"
#include "allocator/tools/top/process_status.h"

namespace rdmalloc::cli {

// For CLI11: empty when it is the number of a process.
std::string objection_to_process(const std::string& text);

struct MachineProcess {
  pid_t number = 0;
  ProcessStatus status;
  std::string user;                         // the effective one's name, printable
  std::optional<uint64_t> memlock;          // soft limit, bytes; os::kNoLimit
  std::optional<ProcessCounters> counters;  // nothing: not under rdmalloc, or not for us to see
  std::optional<uint64_t> granted;          // bytes, by the machine's ledger
  std::vector<std::string> over;            // what it has more of than it should: words

  // What it keeps from the rest of the machine; registered heap counts as both.
  uint64_t weight() const { return status.locked.value_or(0) + status.pinned.value_or(0); }
};

// Which ones are wanted.
struct ProcessFilter {
  bool all = false;              // also those that neither pin nor are under rdmalloc
  std::vector<pid_t> numbers;    // these alone, whatever they do; empty: not asked for
  std::optional<uint64_t> user;  // this one's alone, real or effective
};

struct MachineScan {
  std::vector<MachineProcess> processes;
  size_t seen = 0;        // all processes, of all users
  size_t unreadable = 0;  // those of which nothing is known
};

using ReadCounters = std::function<std::optional<ProcessCounters>(pid_t)>;

// What a process says of itself, if anything.
std::optional<ProcessCounters> read_counters(pid_t process);

// `is_known` says of a process that it is wanted although it pins nothing and tells nothing:
// because the ledger has it. Throws Refusal when `proc`, the folder, cannot be read.
MachineScan scan_processes(const std::string& proc, const ProcessFilter& filter,
                           const std::function<bool(pid_t)>& is_known, const ReadCounters& read);

// True where /proc is mounted so that this user sees his own processes alone.
bool hides_processes();

}  // namespace rdmalloc::cli
