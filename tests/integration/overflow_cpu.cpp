// Malloc-heavy work costs the same CPU time when nothing can be pinned.
//
//   overflow_cpu [PERCENT]   at most this much more, comparing the best of several alternating runs
//
// Runs itself, alternately with and without a budget. Other programs only ever add to a run's time,
// so where the best runs differ too much, more of them are made: what really costs more does so in
// all.
#include <sys/resource.h>
#include <sys/wait.h>

#include <algorithm>

#include "tests/integration/probe.h"

namespace {

constexpr int kLeastRuns = 7;
constexpr int kMostRuns = 40;

// Medium sizes, both jemalloc's and blocks, constantly allocated and freed.
void work() {
  constexpr size_t kLive = 1000;
  constexpr size_t kSteps = 1'000'000;
  static char* live[kLive];
  probe::Random random(1);
  for (size_t i = 0; i < kSteps; ++i) {
    char*& one = live[random.below(kLive)];
    free(one);
    const size_t size = random.size_between(1024, 65536);
    one = static_cast<char*>(malloc(size));
    if (one == nullptr) _exit(probe::kBroken);
    one[0] = one[size - 1] = 1;
  }
}

// In microseconds.
uint64_t run(char** arguments, const char* cap) {
  const pid_t number = fork();
  if (number == 0) {
    setenv("OVERFLOW_CPU", "1", 1);
    if (cap != nullptr) setenv("RDMALLOC_CAP", cap, 1);
    execv("/proc/self/exe", arguments);
    _exit(probe::kBroken);
  }
  int status = 0;
  rusage used{};
  if (wait4(number, &status, 0, &used) != number || status != 0) return 0;
  const timeval& user = used.ru_utime;
  const timeval& system = used.ru_stime;
  return static_cast<uint64_t>(user.tv_sec + system.tv_sec) * 1'000'000 +
         static_cast<uint64_t>(user.tv_usec + system.tv_usec);
}

}  // namespace

int main(int argc, char** argv) {
  probe::Verdict verdict;
  const uint64_t percent = probe::argument(argc, argv, 1, 5);
  if (getenv("OVERFLOW_CPU") != nullptr) {
    work();
    return probe::kHolds;
  }
  uint64_t pinned = UINT64_MAX;
  uint64_t overflow = UINT64_MAX;
  bool is_more = true;
  for (int i = 0; i < kLeastRuns || (is_more && i < kMostRuns); ++i) {
    pinned = std::min(pinned, run(argv, nullptr));
    overflow = std::min(overflow, run(argv, "0"));
    is_more = overflow > pinned + pinned * percent / 100;
  }
  printf("%lu us pinned, %lu us not\n", pinned, overflow);
  if (pinned == 0 || overflow == 0) verdict.broken("a run failed");
  if (is_more) verdict.broken("that is more");
  return verdict.status();
}
