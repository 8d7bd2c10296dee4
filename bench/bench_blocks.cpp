// Large untouched blocks: CPU time of a malloc and free, alone, among blocks of random sizes, in
// several threads, and when blocks pass from one thread to another.
#include <stdio.h>

#include <deque>
#include <thread>

#include "bench/support/contest.h"
#include "bench/support/match.h"

using namespace rdmalloc::bench;

namespace {

constexpr double kMostAgainstPeers = 1.1;
constexpr double kMostWhenHanded = 1.2;
constexpr double kMostCpuOfThreads = 1.15;   // times that of one thread
constexpr double kMostWallOfTwo = 0.6;       // times that of one thread
constexpr double kLeastSpeedOfSixteen = 12;  // times that of one thread
constexpr unsigned kManyThreads = 16;
constexpr size_t kThreadCounts[] = {1, 2, 8};

const Figure kCpu = said("pair_cpu_ps", 1000);
const Figure kWall = said("pair_wall_ps", 1000);
const Figure kSwitches = said("switches_per_million");

std::deque<Match> matches;  // Google Benchmark keeps references

bool is_peer(const Side& side) {
  return side.name != ours().name && side.name != glibc_tuned().name;
}

std::vector<Allocator> everybody() {
  std::vector<Allocator> all = peers_and_tuned();
  all.insert(all.begin(), ours());
  return all;
}

Match& add_match(const std::string& name, const std::vector<std::string>& command) {
  static const std::vector<Allocator> all = everybody();
  Match& match = matches.emplace_back(Match{"blocks/" + name, {}, rounds(9)});
  for (const Allocator& allocator : all)
    match.sides.push_back(side_of(allocator, workload(command)));
  add(match, kCpu);
  return match;
}

std::string threads_name(const Allocator& allocator, size_t threads) {
  return allocator.name + ", " + std::to_string(threads);
}

Match& add_threads_match(const std::string& name, const std::string& shape,
                         const std::vector<Allocator>& allocators,
                         const std::vector<size_t>& counts) {
  Match& match = matches.emplace_back(Match{"blocks/" + name, {}, rounds(9)});
  for (const Allocator& allocator : allocators) {
    for (const size_t threads : counts) {
      Side side = side_of(allocator, workload({"block_set", std::to_string(threads), shape}));
      side.name = threads_name(allocator, threads);
      match.sides.push_back(side);
    }
  }
  add(match, kCpu);
  return match;
}

void print_match(const Match& match) {
  if (!match.was_run()) return;
  printf("\n%-28s %10s %10s %14s\n", match.name.c_str(), "CPU ns", "wall ns", "waits/million");
  for (size_t side = 0; side < match.sides.size(); ++side) {
    const double switches = match.figure(side, kSwitches);
    printf("%-28s %10.1f %10.1f", match.sides[side].name.c_str(), match.figure(side, kCpu),
           match.figure(side, kWall));
    if (switches >= 0) printf(" %14.0f", switches);
    printf("\n");
  }
}

// Empty, which satisfies every bar, if the match was not run or one side is missing.
std::vector<double> ratio(const Match& match, size_t side, size_t of, const Figure& figure) {
  const size_t count = match.sides.size();
  if (!match.was_run() || side == count || of == count) return {};
  return {match.ratio(side, of, figure)};
}

struct One {
  size_t bytes;
  const char* name;
  double most_ns;
  bool below_glibc;
};
constexpr One kOnes[] = {{size_t{64} << 10, "64K", 20, true},
                         {size_t{256} << 10, "256K", 20, true},
                         {size_t{1} << 20, "1M", 20, true},
                         {size_t{16} << 20, "16M", 60, false}};

bool judge_one(const Match& match, double most_ns) {
  if (!match.was_run()) return true;
  return judge(match.name + ": CPU ns", {match.figure(0, kCpu)}, Limit::kAtMost, most_ns);
}

bool judge_glibcs(const Match& match) {
  bool met = true;
  for (const Allocator& peer : {glibc(), glibc_tuned()}) {
    met &= judge(match.name + ": CPU against " + peer.name,
                 ratio(match, 0, match.find(peer.name), kCpu), Limit::kAtMost, 1);
  }
  return met;
}

bool judge_best(const Match& match, double most) {
  const size_t best = match.lowest(kCpu, is_peer);
  const std::string name = best < match.sides.size() ? match.sides[best].name : "nobody";
  return judge(match.name + ": CPU against " + name, ratio(match, 0, best, kCpu), Limit::kAtMost,
               most);
}

bool judge_threads(const Match& match) {
  const size_t one = match.find(threads_name(ours(), 1));
  bool met = true;
  for (const size_t threads : kThreadCounts) {
    if (threads == 1) continue;
    const std::string what = match.name + ", " + std::to_string(threads) + " threads: ";
    const size_t side = match.find(threads_name(ours(), threads));
    met &= judge(what + "CPU against one", ratio(match, side, one, kCpu), Limit::kAtMost,
                 kMostCpuOfThreads);
    if (threads == 2) {
      met &= judge(what + "wall against one", ratio(match, side, one, kWall), Limit::kAtMost,
                   kMostWallOfTwo);
    }
    const size_t other = match.find(threads_name(jemalloc(), threads));
    if (!match.was_run() || other == match.sides.size()) continue;
    met &= judge(what + "waits, jemalloc's", {match.figure(side, kSwitches)}, Limit::kAtMost,
                 match.figure(other, kSwitches));
  }
  return met;
}

// Pairs per second.
bool judge_many(const Match& match) {
  const std::vector<double> wall = ratio(match, 0, 1, kWall);
  return judge(match.name + ": speed against one thread", wall, Limit::kAtLeast,
               kLeastSpeedOfSixteen);
}

using Judge = std::function<bool()>;

void add_alone(std::vector<Judge>& judges) {
  for (const One& one : kOnes) {
    const std::string name = std::string("one/") + one.name;
    const std::string bytes = std::to_string(one.bytes);
    const Match& lone = add_match(name, {"block_pair", bytes});
    const Match& threaded = add_match(name + "/threaded", {"block_pair", bytes, "threaded"});
    judges.push_back([&lone, most = one.most_ns] { return judge_one(lone, most); });
    judges.push_back([&threaded, most = one.most_ns] { return judge_one(threaded, most); });
    // Must be below glibc if glibc takes its locks; without them glibc is faster than any of our
    // bars.
    if (one.below_glibc) judges.push_back([&threaded] { return judge_glibcs(threaded); });
  }
  constexpr std::pair<const char*, const char*> kSets[] = {{"4K-64K/64", "4096-65536/64"},
                                                           {"64K-1M/16", "65536-1048576/16"},
                                                           {"64K-1M/256", "65536-1048576/256"}};
  for (const auto& [name, shape] : kSets) {
    const Match& match = add_match(std::string("random/") + name, {"block_set", "1", shape});
    judges.push_back([&match] { return judge_best(match, kMostAgainstPeers); });
  }
}

void add_threads(std::vector<Judge>& judges) {
  const std::vector<size_t> counts(std::begin(kThreadCounts), std::end(kThreadCounts));
  constexpr const char* kSmall = "4096-65536/64";
  constexpr const char* kMedium = "65536-1048576/64";
  constexpr const char* kLarge = "1048576-16777216/32";
  for (const auto& [name, shape] :
       {std::pair{"threads/4K-64K/64", kSmall}, std::pair{"threads/64K-1M/64", kMedium},
        std::pair{"threads/1M-16M/32", kLarge}}) {
    const Match& match = add_threads_match(name, shape, everybody(), counts);
    judges.push_back([&match] { return judge_threads(match); });
  }
  if (std::thread::hardware_concurrency() >= kManyThreads) {
    const Match& match = add_threads_match("many/64K-1M/64", kMedium, {ours()}, {1, kManyThreads});
    judges.push_back([&match] { return judge_many(match); });
  } else {
    printf("skipped: blocks/many: %u threads need as many processors, here are %u\n", kManyThreads,
           std::thread::hardware_concurrency());
  }
  const Match& match = add_match("handed/64K-4M", {"block_exchange"});
  judges.push_back([&match] { return judge_best(match, kMostWhenHanded); });
}

}  // namespace

int main(int argc, char** argv) {
  if (!is_usable(ours())) return 1;
  std::vector<Judge> judges;
  add_alone(judges);
  add_threads(judges);
  const bool ran = run_matches(argc, argv);
  for (const Match& match : matches) print_match(match);
  printf("\n");
  bool met = true;
  for (const Judge& judge_it : judges) met &= judge_it();
  return status_of(ran, met);
}
