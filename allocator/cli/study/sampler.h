// Samples the memory of all processes of a run, and bounds what that costs: a sample that would go
// beyond the share of a processor that sampling may take is left out, and dear readings are made
// more rarely than cheap ones.
//
//   each time      resident (statm) of each process; of those under the library live, held, pinned
//                  and overflow, from its page of counters
//   often          faults (stat); VmHWM and VmLck (status); whether there are new processes
//   now and then   Pss (smaps_rollup), which walks page tables and holds up faults meanwhile
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "allocator/cli/study/allowance.h"
#include "allocator/cli/study/process_tree.h"
#include "allocator/cli/study/watched_process.h"

namespace rdmalloc::cli::study {

// Sums over the processes of a run at one moment.
struct Sample {
  double seconds = 0;  // since the program's start
  uint64_t resident = 0;
  uint64_t pinned = 0;  // of those under the library its own figure, else what is locked
  uint64_t faults = 0;  // since the start, of those that ended, too
  uint64_t live = 0;    // these three: 0 without counters
  uint64_t held = 0;
  uint64_t overflow = 0;
};

struct Phase {
  std::string name;
  uint64_t entered = 0;
  double seconds = 0;
  uint64_t peak_live = 0, peak_held = 0, peak_pinned = 0;
};

// What sampling found out about one run.
struct Samples {
  std::vector<Sample> series;
  bool has_counters = false;  // of at least one process
  unsigned processes = 0;     // seen in all
  uint64_t peak_resident = 0, peak_pinned = 0;
  uint64_t peak_live = 0, peak_held = 0, peak_overflow = 0;
  uint64_t peak_held_by_one = 0;  // of its processes: what a cap, which is for each, is a share of
  std::optional<uint64_t> peak_proportional;  // highest of a few, so a lower bound
  uint64_t minor_faults = 0, major_faults = 0;
  std::vector<Phase> phases;
  uint64_t left_out = 0;  // samples that would have cost too much
};

class Sampler {
 public:
  // The most of one processor that sampling takes, once a run lasts longer than start-up matters.
  static constexpr double kMostCpu = 0.008;

  // `under_library`: look for pages of counters. The tree must outlive it.
  Sampler(ProcessTree& tree, bool under_library);

  // Begins to watch; time 0 is `start_ns` (os::now_ns).
  void begin(uint64_t start_ns);

  void sample();

  // Before this moment (os::now_ns) no sample should be made: what was spent would be beyond the
  // share. Nobody need wake up earlier.
  uint64_t ready_ns();

  // One is not made for that reason.
  void leave_out() { ++found_.left_out; }

  // Processes of the program that are alive now; looks whatever it costs.
  std::vector<pid_t> alive();

  // Those that were found gone since the last call: dead, or zombies, perhaps ours.
  std::vector<pid_t> take_gone() { return std::exchange(gone_, {}); }

  // Of one processor, since the start: all that this thread did.
  double cpu_share() const;

  // What is known at the end of the run.
  Samples finish();

 private:
  void find_processes();
  void read_processes(uint64_t elapsed_ns);
  void read_some(uint64_t elapsed_ns);
  void read_proportional(uint64_t elapsed_ns);
  void retire(WatchedProcess& process);
  void add_sample(uint64_t elapsed_ns);
  void add_phases(const WatchedProcess& process);

  ProcessTree* tree_;
  bool under_library_;
  uint64_t start_ns_ = 0;
  uint64_t start_cpu_ns_ = 0;
  std::map<pid_t, std::unique_ptr<WatchedProcess>> processes_;
  pid_t turn_ = 0;  // whose dear readings come next
  Allowance all_, finding_, reading_, proportional_;
  uint64_t walk_ns_per_mib_;
  uint64_t ended_minor_ = 0, ended_major_ = 0;
  std::vector<pid_t> gone_;
  Samples found_;
};

}  // namespace rdmalloc::cli::study
