#include "allocator/tools/study/program_run.h"

#include <poll.h>
#include <sys/resource.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>

#include "allocator/os/clock.h"
#include "allocator/tools/child.h"
#include "allocator/tools/text.h"

namespace rdmalloc::cli::study {
namespace {

constexpr std::array<uint64_t, 4> kEarlyNs{0, 1'000'000, 2'000'000, 5'000'000};
constexpr uint64_t kPatienceNs = 1'000'000'000;  // between asking processes to end and killing them

constexpr int kShortestLookMs = 10;  // for processes that outlive the program

rusage usage_of(int who) {
  rusage usage{};
  getrusage(who, &usage);
  return usage;
}

// A timer with absolute expiry: the time that sampling takes does not add up to a drift.
class Timer {
 public:
  Timer() : descriptor_(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)) {}
  int descriptor() const { return descriptor_.get(); }
  void set(uint64_t at_ns) {
    itimerspec when{};
    when.it_value.tv_sec = static_cast<time_t>(at_ns / 1'000'000'000U);
    when.it_value.tv_nsec = static_cast<long>(at_ns % 1'000'000'000U);
    timerfd_settime(descriptor_.get(), TFD_TIMER_ABSTIME, &when, nullptr);
  }

 private:
  Descriptor descriptor_;
};

std::string name_of(pid_t pid) {
  const std::string_view name = ProcFile(pid, "comm").read();
  return name.empty() ? "?" : std::string(name.substr(0, name.find('\n')));
}

}  // namespace

uint64_t sample_moment_ns(uint64_t index, double rate_hz) {
  const double period = 1e9 / rate_hz;
  const auto early = static_cast<uint64_t>(std::ranges::count_if(
      kEarlyNs, [&](uint64_t moment) { return static_cast<double>(moment) < period; }));
  if (index < early) return kEarlyNs.at(index);
  return static_cast<uint64_t>(static_cast<double>(index - early + 1) * period);
}

Run ProgramRun::run(const Launch& launch, bool under_library) {
  Run run;
  Sampler sampler(tree_, under_library);
  // A child begins with a copy of our memory, which the kernel counts in its peak.
  const auto own_peak = static_cast<uint64_t>(usage_of(RUSAGE_SELF).ru_maxrss) * 1024;
  RunningProgram program(launch, interrupts_);
  sampler.begin(program.start_ns());
  watch(program, sampler, run);
  if (!program.has_ended()) end_processes(sampler);
  while (!program.has_ended()) usleep(1000);
  run.seconds = static_cast<double>(program.end_ns() - program.start_ns()) / 1e9;
  wait_for_others(sampler, run);
  run.sampling_cpu_share = sampler.cpu_share();
  run.samples = sampler.finish();
  reap(program.pid(), run, run.samples, own_peak);
  return run;
}

// Samples until the program's own process has ended, or should be ended.
void ProgramRun::watch(RunningProgram& program, Sampler& sampler, Run& run) {
  Timer timer;
  const uint64_t start = program.start_ns();
  std::array<pollfd, 3> events{{{timer.descriptor(), POLLIN, 0},
                                {program.ended_descriptor(), POLLIN, 0},
                                {interrupts_.descriptor(), POLLIN, 0}}};
  for (uint64_t index = 0; !program.has_ended();) {
    const uint64_t now = os::now_ns();
    if (interrupts_.pending() != 0) {
      run.outcome = "was interrupted";
      return;
    }
    if (limits_.timeout_seconds &&
        static_cast<double>(now - start) > *limits_.timeout_seconds * 1e9) {
      run.outcome = "was ended when the time of --timeout was over";
      return;
    }
    const uint64_t due = start + sample_moment_ns(index, limits_.rate_hz);
    if (now < due) {
      timer.set(due);
      poll(events.data(), events.size(), -1);
      continue;
    }
    sampler.sample();
    on_sample_();
    for (const pid_t gone : sampler.take_gone()) {
      rusage usage{};
      if (gone == program.pid() || wait4(gone, nullptr, WNOHANG, &usage) != gone) continue;
      run.user_seconds += seconds_of(usage.ru_utime);
      run.system_seconds += seconds_of(usage.ru_stime);
    }
    index = next_sample(index, start, sampler);
  }
}

// The next sample that is not in the past and that there is CPU time for.
uint64_t ProgramRun::next_sample(uint64_t index, uint64_t start_ns, Sampler& sampler) const {
  const uint64_t now = os::now_ns();
  const uint64_t ready = sampler.ready_ns();
  for (;; ++index) {
    const uint64_t due = start_ns + sample_moment_ns(index, limits_.rate_hz);
    if (due <= now) continue;
    if (due >= ready) return index;
    sampler.leave_out();
  }
}

// Waits for daemons and background processes of a shell: they are our children now.
void ProgramRun::wait_for_others(Sampler& sampler, Run& run) {
  const uint64_t until = os::now_ns() + static_cast<uint64_t>(limits_.linger_seconds * 1e9);
  std::vector<pid_t> others = sampler.alive();
  while (!others.empty() && os::now_ns() < until && interrupts_.pending() == 0) {
    pollfd event{interrupts_.descriptor(), POLLIN, 0};
    poll(&event, 1, std::max(kShortestLookMs, static_cast<int>(1000 / limits_.rate_hz)));
    sampler.sample();
    others = sampler.alive();
  }
  if (others.empty()) return;
  std::vector<std::string> names;
  names.reserve(others.size());
  for (const pid_t pid : others) names.push_back(name_of(pid) + " (" + std::to_string(pid) + ")");
  run.left_behind =
      "still there after the program had ended, and ended by the study: " + joined(names);
  end_processes(sampler);
}

// Ends all that is left of the program: asks first, then kills. Never hits another process: a
// number always belongs to a descendant of this process.
void ProgramRun::end_processes(Sampler& sampler) {
  const uint64_t killed_from = os::now_ns() + kPatienceNs;
  bool asked = false;
  for (std::vector<pid_t> left = sampler.alive(); !left.empty(); left = sampler.alive()) {
    const bool patient = os::now_ns() < killed_from;
    for (const pid_t pid : left) {
      if (!patient) kill(pid, SIGKILL);
      if (patient && !asked) kill(pid, SIGTERM);
      if (patient && !asked) kill(pid, SIGCONT);
    }
    asked = true;
    usleep(2000);
  }
}

// Waits for all children that have ended: the program, and processes that we adopted.
void ProgramRun::reap(pid_t pid, Run& run, Samples& samples, uint64_t own_peak) {
  int status = 0;
  rusage usage{};
  const uint64_t until = os::now_ns() + kPatienceNs;
  for (pid_t ended = 0; (ended = wait4(-1, &status, WNOHANG, &usage)) >= 0;) {
    if (ended == 0 && os::now_ns() > until) return;
    if (ended == 0) {
      usleep(500);  // its memory is gone, but it is no zombie yet
      continue;
    }
    run.user_seconds += seconds_of(usage.ru_utime);
    run.system_seconds += seconds_of(usage.ru_stime);
    const auto peak = static_cast<uint64_t>(usage.ru_maxrss) * 1024;
    if (peak > own_peak) samples.peak_resident = std::max(samples.peak_resident, peak);
    if (ended != pid) continue;
    samples.minor_faults = static_cast<uint64_t>(usage.ru_minflt);
    samples.major_faults = static_cast<uint64_t>(usage.ru_majflt);
    if (!run.outcome.empty()) continue;
    run.outcome = describe_status(status);
    run.ok = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
}

}  // namespace rdmalloc::cli::study
