// The cost of `rdmalloc top` on a machine with 1,000 more processes, against ps reading the same
// ones: whole processes from start to exit, in CPU time and wall time. Some of the 1,000 run under
// rdmalloc. They all sleep, and end with this program however it ends.
#include <benchmark/benchmark.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "bench/support/allocator.h"
#include "bench/support/can_lock.h"
#include "bench/support/child.h"
#include "bench/support/contest.h"
#include "bench/support/median.h"
#include "tests/support/child.h"

using namespace rdmalloc::bench;
using rdmalloc::test::fork_bound;
using rdmalloc::test::kill_child;

namespace {

constexpr int kProcesses = 1000;
constexpr int kUnderUs = 50;  // run under rdmalloc; each pins at most kCap
constexpr const char* kCap = "1M";
constexpr double kBarMs = 200;  // for kProcesses

enum Side { kPs, kTop, kTopAll, kTopJson };
constexpr const char* kSides[] = {"ps", "top", "top --all", "top --all --json"};

std::vector<std::string> command(size_t side) {
  switch (side) {
    case kPs:
      return {"/usr/bin/ps", "-e", "-o", "pid,user,rss,comm"};
    case kTop:
      return sibling("rdmalloc", {"top"});
    case kTopAll:
      return sibling("rdmalloc", {"top", "--all"});
    default:
      return sibling("rdmalloc", {"top", "--all", "--json"});
  }
}

class Crowd {
 public:
  explicit Crowd(int count) {
    for (int i = 0; i < count; ++i) {
      const pid_t child = start(i < kUnderUs);
      if (child < 0) {
        perror("bench_top: fork");
        break;
      }
      children_.push_back(child);
    }
  }
  ~Crowd() {
    for (const pid_t child : children_) kill_child(child);
  }
  Crowd(const Crowd&) = delete;
  Crowd& operator=(const Crowd&) = delete;

  size_t size() const { return children_.size(); }

 private:
  static pid_t start(bool is_under_us) {
    const pid_t child = fork_bound();
    if (child != 0) return child;
    if (is_under_us) {
      setenv("LD_PRELOAD", ours().library.c_str(), 1);
      setenv("RDMALLOC_CAP", kCap, 1);
      setenv("RDMALLOC_WARN", "off", 1);
      setenv("RDMALLOC_COUNTERS_FROM", "1", 1);
      execl("/bin/sleep", "sleep", "100000", nullptr);
      _exit(1);
    }
    for (;;) pause();
  }

  std::vector<pid_t> children_;
};

// Each such line starts with the process's number; so does the line that counts them.
int lines_of_processes(const std::string& output) {
  int lines = 0;
  std::istringstream text(output);
  for (std::string line; std::getline(text, line);) {
    const size_t first = line.find_first_not_of(' ');
    const bool is_number = first != std::string::npos && line[first] >= '0' && line[first] <= '9';
    if (is_number && line.find(" processes, ") == std::string::npos) ++lines;
  }
  return lines;
}

struct Clock {
  std::vector<double> ms[std::size(kSides)];
};

// Whether the output shows the processes that it should.
bool is_right(size_t side, const Outcome& outcome, size_t crowd) {
  if (!outcome.started) return false;
  if (side == kTopJson) return outcome.number("processes_seen") >= static_cast<double>(crowd);
  const int lines = lines_of_processes(outcome.output);
  return lines >= (side == kTop ? std::min<int>(kUnderUs, static_cast<int>(crowd))
                                : static_cast<int>(crowd));
}

void print(const Contest& contest, const Clock& clock, size_t crowd) {
  printf(
      "\n%zu more processes, %d of them under rdmalloc; ms of CPU and by the clock, and the ratio "
      "of CPU to ps\n",
      crowd, kUnderUs);
  for (size_t side = 0; side < std::size(kSides); ++side) {
    printf("%-18s %8.1f %8.1f  %6.2f\n", kSides[side], contest.time(side) * 1e-6,
           median(clock.ms[side]), contest.ratio(side, kPs));
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (access("/usr/bin/ps", X_OK) != 0) {
    fprintf(stderr, "bench_top: skipped: there is no /usr/bin/ps to compare with (procps)\n");
    return kSkipped;
  }
  const Crowd crowd(is_short_form() ? 100 : kProcesses);
  usleep(500'000);
  Contest contest;
  Clock clock;
  contest.name = "top";
  for (const char* side : kSides) contest.sides.push_back(side);
  contest.rounds = rounds(31);
  bool all_right = true;
  contest.slice = [&](size_t side) -> Slice {
    const Outcome outcome = run(command(side), glibc());
    if (!is_right(side, outcome, crowd.size())) {
      fprintf(stderr, "bench_top: %s did not see every process\n", kSides[side]);
      all_right = false;
    }
    clock.ms[side].push_back(outcome.wall_s * 1e3);
    return {outcome.cpu_s * 1e9, outcome.wall_s < 3 * outcome.cpu_s};
  };
  add(contest, kTop);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return EXIT_FAILURE;
  benchmark::RunSpecifiedBenchmarks();
  if (contest.measured.empty()) return EXIT_SUCCESS;
  print(contest, clock, crowd.size());
  const bool met = judge("top, ms of CPU", {contest.time(kTop) * 1e-6}, Limit::kAtMost, kBarMs);
  return all_right && (met || is_short_form()) ? EXIT_SUCCESS : EXIT_FAILURE;
}
