// Runs the program once in one configuration: starts and samples it, waits for all of its
// processes, and ends those that remain.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "allocator/tools/interrupts.h"
#include "allocator/tools/study/launch.h"
#include "allocator/tools/study/process_tree.h"
#include "allocator/tools/study/sampler.h"

namespace rdmalloc::cli::study {

struct RunLimits {
  double rate_hz = 100;
  double linger_seconds = 2;              // for processes that outlive the program
  std::optional<double> timeout_seconds;  // for the program
};

struct Run {
  std::string configuration;
  unsigned repeat = 0;
  std::string outcome;  // a clause: "exited with 0", "was killed by signal 9 (Killed)"
  bool ok = false;      // exited with 0, of its own accord
  double seconds = 0;   // from exec to the end of the program's own process
  double user_seconds = 0, system_seconds = 0;  // of all its processes that were waited for
  Samples samples;
  double sampling_cpu_share = 0;
  std::string left_behind;  // about processes that had to be ended; empty: none
};

class ProgramRun {
 public:
  // Calls `on_sample` now and then during a run.
  ProgramRun(
      const RunLimits& limits, ProcessTree& tree, Interrupts& interrupts,
      std::function<void()> on_sample = [] {})
      : limits_(limits), tree_(tree), interrupts_(interrupts), on_sample_(std::move(on_sample)) {}

  // `under_library`: look for counter pages. Throws Refusal if the program cannot be started.
  // Returns early after an interrupt, which ends the program.
  Run run(const Launch& launch, bool under_library);

 private:
  void watch(RunningProgram& program, Sampler& sampler, Run& run);
  uint64_t next_sample(uint64_t index, uint64_t start_ns, Sampler& sampler) const;
  void wait_for_others(Sampler& sampler, Run& run);
  void end_processes(Sampler& sampler);
  void reap(pid_t pid, Run& run, Samples& samples, uint64_t own_peak);

  RunLimits limits_;
  ProcessTree& tree_;
  Interrupts& interrupts_;
  std::function<void()> on_sample_;
};

// The time of sample `index` after the start: a few early ones for programs that end before the
// first regular sample, then one each 1/rate.
uint64_t sample_moment_ns(uint64_t index, double rate_hz);

}  // namespace rdmalloc::cli::study
