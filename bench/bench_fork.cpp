// The time of a fork in a process whose heap is registered: without a domain, with one open on an
// io_uring, and with one that releases its registrations at fork (RDM_DOMAIN_RELEASE_AT_FORK).
#include <stdio.h>
#include <stdlib.h>

#include "bench/support/can_lock.h"
#include "bench/support/contest.h"
#include "bench/support/has_memory.h"
#include "bench/support/match.h"

using namespace rdmalloc::bench;

namespace {

constexpr size_t kBytes = size_t{512} << 20;
constexpr size_t kShortBytes = size_t{64} << 20;

// Releasing is meant to save what pinning adds to a fork: it must at least halve the time. What
// remains above a fork without a domain is the deregistration.
constexpr double kMostOfKept = 0.5;

constexpr const char* kWays[] = {"none", "released", "kept"};
const Figure kFork = said("wall_ns", 1e6);
const Figure kAgain = said("again_ns", 1e6);
const Figure kMore = said("more_bytes", 1 << 20);

Match make_match() {
  const std::string bytes = std::to_string(is_short_form() ? kShortBytes : kBytes);
  Match match{"fork/" + bytes, {}, rounds(7)};
  for (const char* way : kWays) {
    Side side = side_of(ours(), sibling("bench_device_workload", {"fork", bytes, way}));
    side.name = way;
    match.sides.push_back(side);
  }
  return match;
}

}  // namespace

int main(int argc, char** argv) {
  if (!is_usable(ours())) return EXIT_FAILURE;
  if (!has_memory(4 * kBytes) || !can_lock(kBytes)) return kSkipped;
  Match match = make_match();
  add(match, said("wall_ns"));
  const bool ran = run_matches(argc, argv);
  if (!match.was_run()) return status_of(ran, false);
  printf("\n%-10s %10s %18s %22s %20s\n", "domain", "fork ms", "of fork with none",
         "registering anew ms", "more resident MiB");
  for (size_t side = 0; side < match.sides.size(); ++side) {
    printf("%-10s %10.2f %18.2f %22.2f %20.1f\n", match.sides[side].name.c_str(),
           match.figure(side, kFork), match.ratio(side, match.find("none"), kFork),
           match.figure(side, kAgain), match.figure(side, kMore));
  }
  const bool met =
      judge("fork/released of kept", {match.ratio(1, 2, kFork)}, Limit::kAtMost, kMostOfKept);
  return status_of(ran, met);
}
