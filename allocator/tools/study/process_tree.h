// The descendants of this process, including daemons: the kernel makes this process adopt those
// whose parents have ended. Read from /proc only, by one thread.
//
// It lists all of /proc, not /proc/PID/task/*/children, which many kernels lack. It does so only if
// the kernel has assigned a number since the last listing, and examines only what is new.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "allocator/tools/study/proc_file.h"

namespace rdmalloc::cli::study {

class ProcessTree {
 public:
  // Makes this process adopt orphans from now on.
  ProcessTree();

  // True if there may be a process that update() has not seen. Cheap.
  bool may_have_grown() const;

  // Lists them again; returns the new ones.
  std::vector<pid_t> update();

  // Forgets a process that is gone, so that its number can be reused.
  void forget(pid_t pid) { known_.erase(pid); }

  // The descendants at the last update that have not been forgotten.
  std::vector<pid_t> members() const;

 private:
  bool is_new_member(pid_t pid);

  pid_t self_;
  ProcFile last_number_;
  mutable uint64_t seen_number_ = 0;
  std::unordered_map<pid_t, bool> known_;  // true: a descendant; false: not ours
};

}  // namespace rdmalloc::cli::study
