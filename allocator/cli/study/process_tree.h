// The descendants of this process, daemons included: it asks the kernel to be given those whose
// parents have ended. Read from /proc alone, by one thread.
//
// All of /proc is listed, and not /proc/PID/task/*/children, which many kernels lack. A listing is
// made only when the kernel has given out a number since the last, and only what is new in it is
// looked at.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "allocator/cli/study/proc_file.h"

namespace rdmalloc::cli::study {

class ProcessTree {
 public:
  // Makes this process the one that is given orphans, from now on.
  ProcessTree();

  // True when there may be a process that update() has not seen. Cheap.
  bool may_have_grown() const;

  // Lists them again; returns those that are new.
  std::vector<pid_t> update();

  // Forgets one that is gone, so that its number can be another's.
  void forget(pid_t pid) { known_.erase(pid); }

  // Those that were there at the last update and have not been forgotten.
  std::vector<pid_t> members() const;

 private:
  bool is_new_member(pid_t pid);

  pid_t self_;
  ProcFile last_number_;
  mutable uint64_t seen_number_ = 0;
  std::unordered_map<pid_t, bool> known_;  // true: a descendant; false: somebody else's
};

}  // namespace rdmalloc::cli::study
