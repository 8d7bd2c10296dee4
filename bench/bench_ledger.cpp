// The cost of asking the machine's ledger before a region is pinned, against the cost of pinning
// one: alone, with 64 other processes in the ledger, and while 64 processes start, ask and are
// killed.
#include <benchmark/benchmark.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <iterator>
#include <list>
#include <string>
#include <vector>

#include "allocator/limits/machine_ledger.h"
#include "bench/support/allocator.h"
#include "bench/support/can_lock.h"
#include "bench/support/contest.h"
#include "tests/support/child.h"

using namespace rdmalloc;
using namespace rdmalloc::bench;

namespace {

constexpr uint64_t kCap = uint64_t{1} << 40;
constexpr size_t kOthers = 64;
constexpr size_t kRegion = size_t{1} << 20;
constexpr int kRegions = 20;  // per slice
constexpr int kQuestions = 200;
constexpr double kQuestionsPerSlice = kQuestions;

enum Side { kPin, kAlone, kCrowd, kStorm };
constexpr const char* kSides[] = {"pin 1 MiB", "ask, alone", "ask, 64 others", "ask, storm"};

double thread_ns() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

class Ledger {
 public:
  explicit Ledger(const char* name)
      : path_("/dev/shm/rdmalloc-bench-" + std::to_string(getpid()) + name) {
    ledger_.boot(path_.c_str(), kCap);
  }
  ~Ledger() { unlink(path_.c_str()); }
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  const char* path() const { return path_.c_str(); }

  // This thread's CPU time in ns per query; negative: one was refused.
  double question() {
    const double began = thread_ns();
    for (int i = 0; i < kQuestions; ++i) {
      if (ledger_.ask({0, 0}, kRegion, kRegion) != kRegion) return -1;
    }
    return (thread_ns() - began) / kQuestionsPerSlice;
  }

 private:
  std::string path_;
  MachineLedger ledger_;
};

// Processes that are in the ledger; they end with this program.
class Crowd {
 public:
  Crowd(const char* path, bool storms) : storms_(storms) {
    pid_ = test::fork_bound();
    if (pid_ == 0) live(path);
  }
  ~Crowd() {
    kill(pid_, SIGTERM);
    test::end_of(pid_);
  }
  Crowd(const Crowd&) = delete;
  Crowd& operator=(const Crowd&) = delete;

 private:
  static pid_t start(const char* path) {
    const pid_t child = test::fork_bound();
    if (child != 0) return child;
    MachineLedger ledger;
    ledger.boot(path, kCap);
    for (uint64_t pinned = 0; pinned < 8 * kRegion; pinned += kRegion) {
      if (ledger.ask({pinned, pinned}, kRegion, kRegion) != kRegion) _exit(1);
    }
    pause();
    _exit(0);
  }

  [[noreturn]] void live(const char* path) const {
    std::vector<pid_t> children;
    for (size_t i = 0; i < kOthers; ++i) children.push_back(start(path));
    for (size_t i = 0;; i = (i + 1) % kOthers) {
      if (!storms_) pause();
      test::kill_child(children[i]);
      children[i] = start(path);
    }
  }

  const bool storms_;
  pid_t pid_;
};

double pin() {
  const double began = thread_ns();
  for (int i = 0; i < kRegions; ++i) {
    void* region = mmap(nullptr, kRegion, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (region == MAP_FAILED || mlock(region, kRegion) != 0) return -1;
    munmap(region, kRegion);
  }
  return (thread_ns() - began) / kRegions;
}

// The storm runs only while it is measured, because it would take processor time from the other
// cases.
double in_a_storm(Ledger* ledger) {
  const Crowd storm(ledger->path(), true);
  usleep(20'000);
  return ledger->question();
}

void print(const Contest& contest) {
  printf("\nCPU ns, and the ratio to pinning 1 MiB\n");
  for (size_t side = 0; side < std::size(kSides); ++side) {
    printf("%-16s %10.0f  %.4f\n", kSides[side], contest.time(side), contest.ratio(side, kPin));
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (!can_lock(kRegion)) return kSkipped;
  Ledger alone("-alone"), crowded("-crowd"), stormy("-storm");
  const Crowd crowd(crowded.path(), false);
  usleep(200'000);
  Contest contest;
  contest.name = "ledger";
  for (const char* side : kSides) contest.sides.push_back(side);
  contest.rounds = rounds(51);
  contest.slice = [&](size_t side) -> Slice {
    const double ns = side == kPin     ? pin()
                      : side == kAlone ? alone.question()
                      : side == kCrowd ? crowded.question()
                                       : in_a_storm(&stormy);
    return {ns, ns > 0};
  };
  add(contest, kPin);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return EXIT_FAILURE;
  benchmark::RunSpecifiedBenchmarks();
  if (contest.measured.empty()) return EXIT_SUCCESS;
  print(contest);
  return EXIT_SUCCESS;
}
