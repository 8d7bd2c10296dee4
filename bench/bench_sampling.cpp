// How much of a processor `rdmalloc study` uses while it samples a program 100 times a second: all
// CPU time of this process, waiting included, as a share of the elapsed time. For comparison, the
// cost of reading each process's smaps_rollup every time, the obvious way to exact figures.
#include <benchmark/benchmark.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "allocator/os/clock.h"
#include "allocator/tools/study/program_run.h"
#include "bench/support/allocator.h"

using namespace rdmalloc;
using namespace rdmalloc::cli::study;

namespace {

constexpr double kRate = 100;
constexpr double kBarPercent = 1;
constexpr const char* kHold = "--hold";

double seconds_to_hold() { return bench::is_short_form() ? 0.3 : 4; }

// The sampled program: this many processes, each continuously touching this much memory.
[[noreturn]] void hold(size_t mib, int processes, double seconds) {
  for (int i = 1; i < processes; ++i) {
    if (fork() == 0) break;
  }
  const size_t size = mib << 20U;
  char* memory = static_cast<char*>(
      mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  if (memory == MAP_FAILED) _exit(1);
  memset(memory, 1, size);
  usleep(static_cast<useconds_t>(seconds * 1e6));
  while (wait(nullptr) > 0) {
  }
  _exit(0);
}

Launch holder(int64_t mib, int64_t processes) {
  Launch launch;
  launch.program = "/proc/self/exe";
  launch.command = {"bench_sampling", kHold, std::to_string(mib), std::to_string(processes),
                    std::to_string(seconds_to_hold())};
  launch.input = launch.output = launch.errors = "/dev/null";
  return launch;
}

double own_cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

void sampling(benchmark::State& state) {
  ProcessTree tree;
  cli::Interrupts interrupts({SIGINT, SIGTERM, SIGHUP});
  for (auto _ : state) {
    const double before = own_cpu_seconds();
    RunLimits limits;
    limits.rate_hz = kRate;
    const Run run =
        ProgramRun(limits, tree, interrupts).run(holder(state.range(0), state.range(1)), false);
    const double percent = 100 * (own_cpu_seconds() - before) / run.seconds;
    state.SetIterationTime(run.seconds);
    state.counters["cpu_percent"] = percent;
    state.counters["samples_per_s"] = static_cast<double>(run.samples.series.size()) / run.seconds;
    state.counters["left_out"] = static_cast<double>(run.samples.left_out);
    if (!run.ok) state.SkipWithError("the program failed");
    if (!bench::is_short_form() && percent > kBarPercent) {
      state.SkipWithError("sampling takes more than it may");
    }
  }
}

void all_of_it_each_time(benchmark::State& state) {
  ProcessTree tree;
  cli::Interrupts interrupts({SIGINT, SIGTERM, SIGHUP});
  for (auto _ : state) {
    RunningProgram program(holder(state.range(0), state.range(1)), interrupts);
    const double before = own_cpu_seconds();
    for (uint64_t index = 0; !program.has_ended(); ++index) {
      tree.update();
      for (const pid_t pid : tree.members()) WatchedProcess(pid, false).read_proportional();
      const uint64_t due = program.start_ns() + sample_moment_ns(index, kRate);
      if (const uint64_t now = os::now_ns(); now < due) {
        usleep(static_cast<useconds_t>((due - now) / 1000));
      }
    }
    const double seconds = static_cast<double>(program.end_ns() - program.start_ns()) / 1e9;
    state.SetIterationTime(seconds);
    state.counters["cpu_percent"] = 100 * (own_cpu_seconds() - before) / seconds;
    waitpid(program.pid(), nullptr, 0);
  }
}

void sizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"MiB", "processes"});
  if (bench::is_short_form()) {
    benchmark->Args({16, 1})->Args({1, 16});
  } else {
    benchmark->Args({1024, 1})->Args({16, 16});
  }
  benchmark->UseManualTime()->Iterations(1);
}

BENCHMARK(sampling)->Apply(sizes);
BENCHMARK(all_of_it_each_time)->Apply(sizes);

}  // namespace

int main(int argc, char** argv) {
  if (argc == 5 && strcmp(argv[1], kHold) == 0) {
    hold(strtoul(argv[2], nullptr, 10), atoi(argv[3]), atof(argv[4]));
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
