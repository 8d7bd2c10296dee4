// A loop of malloc, fill, send, free between two ranks over shared memory, under Open MPI and
// MPICH: ours, glibc with its defaults, and glibc tuned to keep its memory, as HPC sites advise.
// The jobs run in turns, one at a time; measured is the wall time of the loop, without start-up.
//
// Nothing is registered here, so ours gains nothing from that: this compares the mallocs.
#include <benchmark/benchmark.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <list>
#include <string>
#include <vector>

#include "bench/support/can_lock.h"
#include "bench/support/child.h"
#include "bench/support/contest.h"

using namespace rdmalloc::bench;

namespace {

enum Side { kOurs, kGlibc, kTuned, kSides };
constexpr const char* kNames[kSides] = {"rdmalloc", "glibc", "tuned"};
// ours / tuned: no slower in the mean of all cases, nor in each case beyond the run-to-run
// variation of a median.
constexpr double kMost = 1.0;
constexpr double kMostOfOne = 1.05;

constexpr double kUndisturbed = 0.97;  // share of the wall time with both ranks on processors

// In bytes: these variables take no units, and "1G" is one byte.
const std::vector<std::string> kTuning = {"MALLOC_MMAP_THRESHOLD_=1073741824",
                                          "MALLOC_TRIM_THRESHOLD_=4294967296",
                                          "MALLOC_TOP_PAD_=67108864"};

struct Mpi {
  const char* name;
  std::vector<std::string> options;
};
const Mpi kMpis[] = {{"openmpi", {"--mca", "pml", "ob1", "--mca", "btl", "vader,self"}},
                     {"mpich", {}}};

struct Sizes {
  const char* name;
  const char* most_kib;
  const char* messages;
};
constexpr Sizes kSizes[] = {{"64K-1M", "1024", "4000"}, {"64K-16M", "16384", "300"}};

std::vector<std::string> command_of(const Mpi& mpi, const Sizes& sizes) {
  std::vector<std::string> command = {
      "/usr/bin/timeout", "-k", "5", "60", std::string("/usr/bin/mpirun.") + mpi.name, "-np", "2"};
  command.insert(command.end(), mpi.options.begin(), mpi.options.end());
  for (const std::string& word :
       sibling(std::string("bench_mpi_loop.") + mpi.name,
               {"64", sizes.most_kib, is_short_form() ? "20" : sizes.messages})) {
    command.push_back(word);
  }
  return command;
}

// Whether the rank ran under the intended malloc.
bool is_proved(size_t side, const Outcome& outcome) {
  const bool owned = outcome.number("owned") == 1;
  if (side == kOurs) return owned;
  return !owned && (side == kGlibc || outcome.number("mappings") == 0);
}

Slice measure(const Mpi& mpi, const Sizes& sizes, size_t side) {
  std::vector<std::string> environment = {
      "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
      "OMPI_MCA_rmaps_base_oversubscribe=1", "RDMALLOC_WARN=off"};
  if (side == kTuned) environment.insert(environment.end(), kTuning.begin(), kTuning.end());
  const Outcome outcome =
      run(command_of(mpi, sizes), side == kOurs ? ours() : glibc(), environment);
  const double messages = atof(is_short_form() ? "20" : sizes.messages);
  if (!outcome.started || !is_proved(side, outcome)) {
    fprintf(stderr, "%s under %s: the job failed, or its malloc is another:\n%s\n", kNames[side],
            mpi.name, outcome.output.c_str());
    exit(EXIT_FAILURE);
  }
  return {outcome.number("wall_ns") / messages, outcome.number("on_processor") >= kUndisturbed};
}

// A list, because Google Benchmark keeps references.
std::list<Contest> contests;

bool is_there(const Mpi& mpi) {
  const std::string launcher = std::string("/usr/bin/mpirun.") + mpi.name;
  const std::string loop = sibling(std::string("bench_mpi_loop.") + mpi.name, {}).front();
  if (access(launcher.c_str(), X_OK) == 0 && access(loop.c_str(), X_OK) == 0) return true;
  fprintf(stderr, "skipped: %s: no mpirun.%s, or no mpicc.%s at the build\n", mpi.name, mpi.name,
          mpi.name);
  return false;
}

void add_contests(const Mpi& mpi) {
  for (const Sizes& sizes : kSizes) {
    Contest& contest = contests.emplace_back();
    contest.name = std::string("mpi_messages/") + mpi.name + "/" + sizes.name;
    contest.sides.assign(kNames, kNames + kSides);
    contest.rounds = rounds(15);
    contest.slice = [&mpi, &sizes](size_t side) { return measure(mpi, sizes, side); };
    add(contest, kOurs);
  }
}

// A case whose rounds were all disturbed by other programs says nothing, and is not judged.
int report() {
  printf("\nwall us per message, medians of the rounds that other programs left alone\n%-24s", "");
  for (const char* name : kNames) printf("%10s", name);
  printf("  ours/glibc  ours/tuned  disturbed\n");
  std::vector<double> ratios;
  double logarithms = 0;
  for (const Contest& contest : contests) {
    const size_t all = contest.measured.size();
    if (all == 0) continue;
    printf("%-24s", contest.name.c_str() + sizeof "mpi_messages");
    for (size_t side = 0; side < kSides; ++side) printf("%10.1f", contest.time(side) * 1e-3);
    const double ratio = contest.ratio(kOurs, kTuned);
    printf("%12.2f%12.2f%8zu/%zu\n", contest.ratio(kOurs, kGlibc), ratio, contest.disturbed(), all);
    if (contest.disturbed() == all) continue;
    ratios.push_back(ratio);
    logarithms += log(ratio);
  }
  if (ratios.empty()) {
    printf("skipped: other programs had the processors in every round: nothing to judge\n");
    return kSkipped;
  }
  const double mean = exp(logarithms / static_cast<double>(ratios.size()));
  const std::string what = "rdmalloc / tuned glibc";
  const bool in_mean = judge(what + ", geometric mean", {mean}, Limit::kAtMost, kMost);
  const bool in_each = judge(what, ratios, Limit::kAtMost, kMostOfOne);
  return in_mean && in_each ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace

int main(int argc, char** argv) {
  for (const Mpi& mpi : kMpis) {
    if (is_there(mpi)) add_contests(mpi);
  }
  if (contests.empty()) return kSkipped;
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return EXIT_FAILURE;
  benchmark::RunSpecifiedBenchmarks();
  const int status = report();
  if (!is_short_form()) return status;
  printf("short form: the figures above mean nothing\n");
  return EXIT_SUCCESS;
}
