// Samples the memory of all processes of a run at a bounded cost: a sample that would exceed
// sampling's share of a processor is left out, and expensive readings are rarer than cheap ones.
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

#include "allocator/tools/study/allowance.h"
#include "allocator/tools/study/process_tree.h"
#include "allocator/tools/study/watched_process.h"

namespace rdmalloc::cli::study {

// Sums over the processes of a run at one moment.
struct Sample {
  double seconds = 0;  // since the program's start
  uint64_t resident = 0;
  uint64_t pinned = 0;  // the library's own figure; for other processes what is locked
  uint64_t faults = 0;  // since the start, including processes that ended
  uint64_t live = 0;    // these three: 0 without counters
  uint64_t held = 0;
  uint64_t overflow = 0;
};

// The figures, as study.json and samples.csv name them.
struct SampleField {
  const char* name;
  uint64_t Sample::*value;
  bool is_counter;  // known only of processes with counters
};
inline constexpr SampleField kSampleFields[] = {
    {"resident_bytes", &Sample::resident, false}, {"live_bytes", &Sample::live, true},
    {"held_bytes", &Sample::held, true},          {"pinned_bytes", &Sample::pinned, false},
    {"overflow_bytes", &Sample::overflow, true},  {"faults", &Sample::faults, false}};

// The result of sampling one run.
struct Samples {
  std::vector<Sample> series;
  bool has_counters = false;  // of at least one process
  unsigned processes = 0;     // number seen
  uint64_t peak_resident = 0, peak_pinned = 0;
  uint64_t peak_live = 0, peak_held = 0, peak_overflow = 0;
  uint64_t peak_held_by_one = 0;  // by any process: a cap is per process, and a share of this
  std::optional<uint64_t> peak_proportional;  // highest of a few, so a lower bound
  uint64_t minor_faults = 0, major_faults = 0;
  std::vector<PhaseCounters> phases;  // of all processes together
  uint64_t left_out = 0;              // samples that would have cost too much
};

class Sampler {
 public:
  // Sampling's share of one processor, once a run is so long that start-up no longer matters.
  static constexpr double kMostCpu = 0.008;

  // `under_library`: look for counter pages. The tree must outlive this.
  Sampler(ProcessTree& tree, bool under_library);

  // Starts watching; time 0 is `start_ns` (os::now_ns).
  void begin(uint64_t start_ns);

  void sample();

  // No sample should be made before this moment (os::now_ns), because it would exceed the share.
  // The caller may sleep until then.
  uint64_t ready_ns();

  // Counts a sample that was left out for that reason.
  void leave_out() { ++found_.left_out; }

  // The program's processes that are alive now; ignores the cost limit.
  std::vector<pid_t> alive();

  // Processes found to be gone since the last call: dead, or zombies, perhaps our own children.
  std::vector<pid_t> take_gone() { return std::exchange(gone_, {}); }

  // Share of one processor since the start: everything that this thread did.
  double cpu_share() const;

  // The results at the end of the run.
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
  pid_t turn_ = 0;  // next process for expensive readings
  Allowance all_, finding_, reading_, proportional_;
  uint64_t walk_ns_per_mib_;
  uint64_t ended_minor_ = 0, ended_major_ = 0;
  std::vector<pid_t> gone_;
  Samples found_;
};

}  // namespace rdmalloc::cli::study
