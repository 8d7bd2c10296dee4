// From a malloc'd buffer to its key, always a hit: rdm_lookup, called and inline, against a bare
// array load, an empty call, a checked table call, an interval map under a lock and UCX's
// registration cache, in one process and one run.
//
// Every iteration times a slice of each, one right after the other, in a different order each time;
// the ratios are medians of the iterations' ratios.
#include <benchmark/benchmark.h>
#include <stdio.h>
#include <stdlib.h>

#include <list>
#include <string>
#include <vector>

#include "bench/lookup/field.h"
#include "bench/lookup/race.h"
#include "bench/peers/free_device.h"
#include "bench/support/allocator.h"
#include "bench/support/can_lock.h"
#include "bench/support/contest.h"
#include "include/rdmalloc/inline.h"

using namespace rdmalloc::bench;

namespace {

constexpr size_t kCounts[] = {100, 1000, 20000};
constexpr size_t kLocked = size_t{512} << 20;
constexpr double kMostNs = 3;
constexpr double kMostOverTable = 1.3;
constexpr double kLeastUnderUcx[] = {20, 100};  // with one thread, with two threads
constexpr double kMostOverFewest = 1.25;        // the bar for "flat", relative to 100 buffers

// Ways to find a key, cheapest first.
enum Subject { kArray, kCall, kTable, kInline, kLookup, kMap, kUcx, kSubjects };
constexpr const char* kNames[kSubjects] = {"array",      "call", "table", "inline",
                                           "rdm_lookup", "map",  "UCX"};

struct Case {
  Mode mode;
  size_t threads;
  size_t count;
  Contest contest = {};
};

// A list, because Google Benchmark keeps references.
std::list<Case> cases;

template <Mode kMode>
Slice slice(const Field& field, size_t threads, size_t subject) {
  const uint64_t time = is_short_form() ? 200'000 : 4'000'000;
  const auto of = [&](const auto& find) { return race<kMode>(field, threads, time, find); };
  switch (subject) {
    case kArray:
      return of([array = field.array.data()](const Buffer& buffer) { return array[buffer.index]; });
    case kCall:
      return of([](const Buffer& buffer) {
        rdm_mr mr;
        return static_cast<uint32_t>(bench_empty_call(nullptr, buffer.address, buffer.length, &mr));
      });
    case kTable:
      return of([table = &field.table](const Buffer& buffer) {
        rdm_mr mr;
        bench_checked_lookup(table, buffer.address, buffer.length, &mr);
        return mr.lkey;
      });
    case kInline:
      return of([domain = field.domain](const Buffer& buffer) {
        rdm_mr mr;
        const int status = rdm_lookup_inline(domain, buffer.address, buffer.length, &mr);
        return status == RDM_OK ? mr.lkey : 0;
      });
    case kLookup:
      return of([domain = field.domain](const Buffer& buffer) {
        rdm_mr mr;
        rdm_lookup(domain, buffer.address, buffer.length, &mr);
        return mr.lkey;
      });
    case kMap:
      return of([map = &field.map](const Buffer& buffer) {
        rdm_mr mr;
        map->find(buffer.address, buffer.length, &mr);
        return mr.lkey;
      });
    default:
#if BENCH_HAS_UCX
      return of([ucx = field.ucx.get()](const Buffer& buffer) {
        const UcxCache::Region* region = ucx->get(buffer.address, buffer.length);
        const uint32_t key = region->key;
        ucx->put(region);
        return key;
      });
#else
      return {};
#endif
  }
}

size_t subjects() { return BENCH_HAS_UCX ? kSubjects : kUcx; }

const char* name(Mode mode) { return mode == Mode::kThroughput ? "throughput" : "latency"; }

template <Mode kMode>
void add_cases(const std::list<Field>& fields) {
  for (const size_t threads : {1, 2}) {
    for (const Field& field : fields) {
      Case& added = cases.emplace_back(Case{kMode, threads, field.buffers.size()});
      added.contest.name = std::string("lookup/") + name(kMode) + "/" +
                           std::to_string(added.count) + "/threads:" + std::to_string(threads);
      added.contest.sides.assign(kNames, kNames + subjects());
      added.contest.rounds = rounds(31);
      added.contest.slice = [&field, threads](size_t subject) {
        return slice<kMode>(field, threads, subject);
      };
      add(added.contest, kLookup);
    }
  }
}

void print_table() {
  printf("\nCPU ns per call and thread\n%-10s %7s %7s", "", "threads", "buffers");
  for (size_t i = 0; i < subjects(); ++i) printf(" %10s", kNames[i]);
  printf("  lookup/table  UCX/lookup  UCX/inline  disturbed\n");
  for (const Case& what : cases) {
    const Contest& contest = what.contest;
    if (contest.measured.empty()) continue;
    printf("%-10s %7zu %7zu", name(what.mode), what.threads, what.count);
    for (size_t i = 0; i < subjects(); ++i) printf(" %10.2f", contest.time(i));
    const bool has_ucx = subjects() > kUcx;
    printf(" %13.2f %11.1f %11.1f %5zu of %zu\n", contest.ratio(kLookup, kTable),
           has_ucx ? contest.ratio(kUcx, kLookup) : 0, has_ucx ? contest.ratio(kUcx, kInline) : 0,
           contest.disturbed(), contest.measured.size());
  }
}

// Over all cases that were measured and fit.
template <typename Fits, typename Value>
std::vector<double> values_of(const Fits& fits, const Value& value) {
  std::vector<double> values;
  for (const Case& what : cases) {
    if (!what.contest.measured.empty() && fits(what)) values.push_back(value(what));
  }
  return values;
}

double fewest(const Case& like) {
  for (const Case& what : cases) {
    if (what.mode != like.mode || what.threads != like.threads) continue;
    if (!what.contest.measured.empty()) return what.contest.time(kLookup);
  }
  return 0;
}

bool judge_all() {
  const auto throughput = [](const Case& what) { return what.mode == Mode::kThroughput; };
  const auto any = [](const Case&) { return true; };
  const auto time = [](const Case& what) { return what.contest.time(kLookup); };
  bool met =
      judge("rdm_lookup, ns, throughput", values_of(throughput, time), Limit::kAtMost, kMostNs);
  met = judge("rdm_lookup / checked table, throughput and latency",
              values_of(any, [](const Case& what) { return what.contest.ratio(kLookup, kTable); }),
              Limit::kAtMost, kMostOverTable) &&
        met;
  met = judge("rdm_lookup / itself with the fewest buffers",
              values_of(any, [&](const Case& what) { return time(what) / fewest(what); }),
              Limit::kAtMost, kMostOverFewest) &&
        met;
  for (const size_t threads : {1, 2}) {
    if (subjects() <= kUcx) continue;
    const auto fits = [&](const Case& what) { return throughput(what) && what.threads == threads; };
    // No call can be that cheap: an empty one takes more than a twentieth of UCX's time.
    met = judge("UCX / rdm_lookup_inline, throughput, threads: " + std::to_string(threads),
                values_of(fits, [](const Case& what) { return what.contest.ratio(kUcx, kInline); }),
                Limit::kAtLeast, kLeastUnderUcx[threads - 1]) &&
          met;
  }
  return met;
}

}  // namespace

int main(int argc, char** argv) {
  if (!can_lock(kLocked)) return kSkipped;
  const rdm_domain* domain = open_free_domain();
  const std::vector<Buffer> buffers = allocate_buffers(std::end(kCounts)[-1]);
  std::list<Field> fields;
  for (const size_t count : kCounts) fields.emplace_back(domain, buffers, count);
  add_cases<Mode::kThroughput>(fields);
  add_cases<Mode::kLatency>(fields);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return EXIT_FAILURE;
  benchmark::RunSpecifiedBenchmarks();
  if (subjects() <= kUcx) fprintf(stderr, "skipped: UCX: built without libucx-dev\n");
  print_table();
  const bool met = judge_all();
  if (is_short_form()) printf("short form: the figures above mean nothing\n");
  return met || is_short_form() ? EXIT_SUCCESS : EXIT_FAILURE;
}
