// Ping-pong between two processes through a segment of shared memory, over each layout in turns in
// one run. Tests the claim of the RFC that defines the layouts: neither cache lines instead of
// pages nor aggregation makes it slower. Also with more ranks in the segment, of which only two
// communicate.
#include <benchmark/benchmark.h>
#include <stdio.h>
#include <stdlib.h>

#include <iterator>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "bench/shm/partner.h"
#include "bench/support/allocator.h"
#include "bench/support/contest.h"

using namespace rdmalloc::bench;

namespace {

struct Side {
  const char* name;
  unsigned layout;
};
constexpr Side kSides[] = {{"page", RDM_SHM_PAGE},
                           {"cacheline", RDM_SHM_CACHELINE},
                           {"aggregated", RDM_SHM_AGGREGATED},
                           {"mpsc", RDM_SHM_MPSC}};
enum { kPage, kCacheline, kAggregated, kMpsc };

constexpr unsigned kProcs[] = {2, 16};
constexpr size_t kLengths[] = {8, 1024, 4096};
constexpr unsigned kRoundTrips = 800;  // per slice
constexpr unsigned kSlicesOfSegment = 10;
// ns. A higher median measures scheduling: another program had the partner's processor.
constexpr double kDisturbed = 20'000;
// How much a median of medians still varies from run to run.
constexpr double kNoSlower = 1.05;

struct Case {
  unsigned procs;
  size_t length;
  Contest contest = {};
};

// The two communicating ranks of each layout. Created when first needed, so that a filter starts no
// unused ranks, and recreated now and then: a segment's speed depends more on which physical pages
// it happened to get than on its layout.
class Table {
 public:
  Partner& partner(unsigned layout, unsigned procs) {
    if (partner_ == nullptr || slices_++ % kSlicesOfSegment == 0) {
      partner_.reset();
      partner_ = std::make_unique<Partner>(layout, procs);
    }
    return *partner_;
  }

 private:
  std::unique_ptr<Partner> partner_;
  unsigned slices_ = 0;
};

// Indexed by number of ranks and side.
Table tables[std::size(kProcs)][std::size(kSides)];

Partner& partner_of(unsigned procs, size_t side) {
  return tables[procs == kProcs[0] ? 0 : 1][side].partner(kSides[side].layout, procs);
}

// A list, because Google Benchmark keeps references.
std::list<Case> cases;

void add_cases() {
  for (const unsigned procs : kProcs) {
    for (const size_t length : kLengths) {
      Case& what = cases.emplace_back(Case{procs, length});
      what.contest.name =
          "shm/" + std::to_string(procs) + "_ranks/" + std::to_string(length) + "_bytes";
      for (const Side& side : kSides) what.contest.sides.push_back(side.name);
      what.contest.rounds = rounds(201);
      what.contest.slice = [&what](size_t side) -> Slice {
        const double ns =
            partner_of(what.procs, side)
                .round_trip(what.length, is_short_form() ? kRoundTrips / 10 : kRoundTrips);
        return {ns, ns < kDisturbed};
      };
      add(what.contest, kPage);
    }
  }
}

void print_table() {
  printf("\nround trip, wall ns (ratio to page's)\n%-24s", "");
  for (const Side& side : kSides) printf("%20s", side.name);
  for (const Case& what : cases) {
    if (what.contest.measured.empty()) continue;
    printf("\n%-24s", what.contest.name.c_str() + 4);
    for (size_t side = 0; side < std::size(kSides); ++side) {
      printf("%12.0f (%.3f)", what.contest.time(side), what.contest.ratio(side, kPage));
    }
  }
  printf("\n");
}

bool judge_all() {
  std::vector<double> cacheline, aggregated;
  for (const Case& what : cases) {
    if (what.contest.measured.empty() || what.procs != 2) continue;
    cacheline.push_back(what.contest.ratio(kCacheline, kPage));
    aggregated.push_back(what.contest.ratio(kAggregated, kPage));
  }
  const bool first = judge("cacheline / page, 2 ranks", cacheline, Limit::kAtMost, kNoSlower);
  return judge("aggregated / page, 2 ranks", aggregated, Limit::kAtMost, kNoSlower) && first;
}

}  // namespace

int main(int argc, char** argv) {
  add_cases();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return EXIT_FAILURE;
  benchmark::RunSpecifiedBenchmarks();
  print_table();
  const bool is_met = judge_all();
  if (is_short_form()) printf("short form: the figures above mean nothing\n");
  return is_met || is_short_form() ? EXIT_SUCCESS : EXIT_FAILURE;
}
