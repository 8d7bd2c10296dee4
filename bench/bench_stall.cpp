// The longest that another thread's mmap, malloc or fork takes while one thread mallocs and touches
// 1.5 GiB, with and without an open domain; and the longest lookup while 4 GiB are being registered
// with a slow device.
#include <stdio.h>
#include <stdlib.h>

#include <deque>

#include "bench/support/can_lock.h"
#include "bench/support/contest.h"
#include "bench/support/has_memory.h"
#include "bench/support/match.h"

using namespace rdmalloc::bench;

namespace {

constexpr double kMostMilliseconds = 20;
constexpr size_t kBytes = size_t{1536} << 20;
constexpr size_t kShortBytes = size_t{64} << 20;
// Fork copies the pages that a device uses.
constexpr size_t kNeeded = 2 * kBytes + (size_t{512} << 20);
constexpr size_t kRegistered = size_t{4} << 30;
constexpr double kMostMillisecondsOfLookup = 5;
constexpr const char* kLookup = "stall/lookup";
constexpr const char* kActions[] = {"mmap", "malloc", "fork"};
constexpr const char* kDomain = "+domain";

const Figure kWorst = said("worst_ns", 1e6);

std::deque<Match> matches;  // Google Benchmark keeps references

Side stall_side(const Allocator& allocator, const std::string& action, const char* more) {
  const std::string bytes = std::to_string(is_short_form() ? kShortBytes : kBytes);
  Side side = side_of(allocator, workload({"stall", bytes, action + more}));
  side.name += more;
  return side;
}

bool can_open_domain() {
  if (run(workload({"domain"}), ours()).started) return true;
  printf(
      "skipped: with a domain: none can be opened on an io_uring (no liburing, or the kernel "
      "refuses it); bench_workload domain says why\n");
  return false;
}

void add_match(const std::string& action, bool with_domain) {
  Match& match = matches.emplace_back(Match{"stall/" + action, {}, rounds(5)});
  match.sides.push_back(stall_side(ours(), action, ""));
  if (with_domain) match.sides.push_back(stall_side(ours(), action, kDomain));
  match.sides.push_back(stall_side(glibc(), action, ""));
  add(match, said("worst_ns"));
}

// With a device that needs 0.2 s per GiB.
void add_lookups() {
  const size_t bytes = is_short_form() ? kShortBytes : kRegistered;
  if (!has_memory(bytes + bytes / 4) || !can_lock(bytes)) return;
  Side side =
      side_of(ours(), sibling("bench_device_workload", {"slow_device", std::to_string(bytes)}));
  matches.push_back(Match{kLookup, {side}, rounds(5)});
  add(matches.back(), said("worst_ns"));
}

void print_table() {
  printf("\n%-14s %-18s %10s %10s\n", "worst of", "allocator", "ms", "actions");
  for (const Match& match : matches) {
    for (size_t side = 0; match.was_run() && side < match.sides.size(); ++side) {
      printf("%-14s %-18s %10.2f %10.0f\n", match.name.c_str(), match.sides[side].name.c_str(),
             match.figure(side, kWorst), match.figure(side, said("actions")));
    }
  }
  printf("\n");
}

bool judge_match(const Match& match) {
  bool met = true;
  for (size_t side = 0; match.was_run() && side < match.sides.size(); ++side) {
    if (match.sides[side].name == glibc().name) continue;
    if (match.name == kLookup) {
      met &= judge("lookups that find nothing", {match.figure(side, said("missed"))},
                   Limit::kAtMost, 0);
    }
    met &= judge(match.name + ", " + match.sides[side].name + ": ms", {match.figure(side, kWorst)},
                 Limit::kAtMost,
                 match.name == kLookup ? kMostMillisecondsOfLookup : kMostMilliseconds);
  }
  return met;
}

}  // namespace

int main(int argc, char** argv) {
  if (!is_usable(ours())) return EXIT_FAILURE;
  if (!has_memory(kNeeded) || !can_lock(kBytes)) return kSkipped;
  const bool with_domain = can_open_domain();
  for (const char* action : kActions) add_match(action, with_domain);
  add_lookups();
  const bool ran = run_matches(argc, argv);
  print_table();
  bool met = true;
  for (const Match& match : matches) met &= judge_match(match);
  return status_of(ran, met);
}
