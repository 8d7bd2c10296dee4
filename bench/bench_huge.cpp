// 2 GiB in one block, with 2 MiB pages against 4 KiB pages: malloc and touch, random reads, and
// process exit. Wall time, because that is what huge pages save; the processor does nothing else
// meanwhile.
#include <stdio.h>
#include <stdlib.h>

#include "bench/support/can_lock.h"
#include "bench/support/contest.h"
#include "bench/support/has_memory.h"
#include "bench/support/match.h"

using namespace rdmalloc::bench;

namespace {

// Requested explicitly: by default the library uses huge pages only if all pages are populated at
// once, or if a large heap has been densely touched so far.
constexpr const char* kHuge = "RDMALLOC_HUGE=thp";
constexpr const char* kBase = "RDMALLOC_HUGE=off";
// The default, with all pages at once: the library may find huge pages slower here, and revert.
constexpr const char* kAtOnce = "RDMALLOC_POPULATE=now";

constexpr size_t kBytes = size_t{2} << 30;
constexpr size_t kShortBytes = size_t{64} << 20;
constexpr size_t kNeeded = 2 * kBytes;

struct Part {
  const char* name;
  Figure seconds;
  double least;  // the bar: at least this many times faster
};
const Part kParts[] = {
    {"acquire", said("acquire_ns", 1e9), 2},
    {"exit",
     [](const Outcome& outcome) { return outcome.ended_s - outcome.number("exit_at_ns") * 1e-9; },
     10},
    {"random reads", said("reads_ns", 1e9), 1.4},
};

enum { kOurs, kOursBase, kOursAtOnce, kGlibc };  // the sides

Match match_of_sides() {
  const auto command = workload({"huge", std::to_string(is_short_form() ? kShortBytes : kBytes)});
  Match match{"huge/2G", {}, rounds(5)};
  match.sides = {side_of(ours(), command, {kHuge}), side_of(ours(), command, {kBase}),
                 side_of(ours(), command, {kAtOnce}), side_of(glibc(), command)};
  match.sides[kOurs].name = kHuge;
  match.sides[kOursBase].name = kBase;
  match.sides[kOursAtOnce].name = kAtOnce;
  return match;
}

void print_table(const Match& match) {
  printf("\n%-14s", "ms");
  for (const Side& side : match.sides) printf(" %22s", side.name.c_str());
  printf("\n");
  for (const Part& part : kParts) {
    printf("%-14s", part.name);
    for (size_t side = 0; side < match.sides.size(); ++side) {
      printf(" %22.1f", match.figure(side, part.seconds) * 1e3);
    }
    printf("\n");
  }
  printf("\n");
}

bool judge_parts(const Match& match) {
  const Part& acquire = kParts[0];
  // On a virtual machine whose host must find the memory first, pages are huge but no faster to
  // get.
  if (match.ratio(kOursBase, kOurs, acquire.seconds) < 1) {
    printf("skipped: the bars: this machine takes longer for huge pages than for base pages\n");
    return true;
  }
  bool met = true;
  for (const Part& part : kParts) {
    met &= judge(match.name + ", " + part.name + ": times faster than pages of 4 KiB",
                 {match.ratio(kOursBase, kOurs, part.seconds)}, Limit::kAtLeast, part.least);
  }
  return met;
}

}  // namespace

int main(int argc, char** argv) {
  if (!is_usable(ours())) return EXIT_FAILURE;
  if (!has_memory(kNeeded) || !can_lock(kBytes)) return kSkipped;
  Match match = match_of_sides();
  add(match, said("acquire_ns"));
  const bool ran = run_matches(argc, argv);
  if (!match.was_run()) return status_of(ran, true);
  print_table(match);
  return status_of(ran, judge_parts(match));
}
