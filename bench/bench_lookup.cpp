// From a malloc'd buffer to its key, a hit each time: rdm_lookup, by call and inline, beside a bare
// array load, an empty call, a checked table call, an interval map under a lock and UCX's
// registration cache, in one process and one run.
//
// Every iteration gives each of them a slice of time, one right after the other, in another order
// each time; the ratios are medians of the iterations' ratios.
#include <benchmark/benchmark.h>
#include <stdio.h>
#include <stdlib.h>

#include <algorithm>
#include <functional>
#include <list>
#include <string>
#include <vector>

#include "bench/lookup/case.h"
#include "bench/support/allocator.h"
#include "bench/support/can_lock.h"
#include "include/rdmalloc/inline.h"

using namespace rdmalloc::bench;

namespace {

constexpr size_t kCounts[] = {100, 1000, 20000};
constexpr size_t kLocked = size_t{512} << 20;
constexpr double kMostNs = 3;
constexpr double kMostOverTable = 1.3;
constexpr double kLeastUnderUcx[] = {20, 100};  // with one thread, with two
constexpr double kMostOverFewest = 1.25;        // what flat means: of the time with 100 buffers

// A list, because Google Benchmark keeps references.
std::list<Case> cases;

template <Mode kMode>
Slice slice(const Field& field, size_t threads, Subject subject) {
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

// In another order each turn.
Round measure(const Case& what, size_t turn) {
  Round round;
  for (size_t i = 0; i < subjects(); ++i) {
    const auto subject = static_cast<Subject>((i + turn) % subjects());
    const Slice slice = what.slice(subject);
    round.ns[subject] = slice.ns;
    round.undisturbed = round.undisturbed && slice.undisturbed;
  }
  return round;
}

void iterate(benchmark::State& state, Case& what) {
  for (auto unused : state) {
    (void)unused;
    what.rounds.push_back(measure(what, what.rounds.size()));
    state.SetIterationTime(what.rounds.back().ns[kLookup] * 1e-9);
  }
  for (size_t i = 0; i < subjects(); ++i) {
    state.counters[std::string("ns_") + kNames[i]] = what.time(static_cast<Subject>(i));
  }
}

template <Mode kMode>
void add_cases(const std::list<Field>& fields) {
  for (const size_t threads : {1, 2}) {
    for (const Field& field : fields) {
      Case& added = cases.emplace_back();
      added.mode = kMode;
      added.threads = threads;
      added.count = field.buffers.size();
      added.slice = [&field, threads](Subject subject) {
        return slice<kMode>(field, threads, subject);
      };
    }
  }
}

const char* name(Mode mode) { return mode == Mode::kThroughput ? "throughput" : "latency"; }

void register_cases() {
  for (Case& what : cases) {
    const std::string title = std::string("lookup/") + name(what.mode) + "/" +
                              std::to_string(what.count) +
                              "/threads:" + std::to_string(what.threads);
    benchmark::RegisterBenchmark(title.c_str(),
                                 [&what](benchmark::State& state) { iterate(state, what); })
        ->UseManualTime()
        ->Iterations(rounds(31))
        ->Unit(benchmark::kNanosecond);
  }
}

void print_table() {
  printf("\nCPU ns per call and thread\n%-10s %7s %7s", "", "threads", "buffers");
  for (size_t i = 0; i < subjects(); ++i) printf(" %10s", kNames[i]);
  printf("  lookup/table  UCX/lookup  UCX/inline  disturbed\n");
  for (const Case& what : cases) {
    if (what.rounds.empty()) continue;
    printf("%-10s %7zu %7zu", name(what.mode), what.threads, what.count);
    for (size_t i = 0; i < subjects(); ++i) printf(" %10.2f", what.time(static_cast<Subject>(i)));
    printf(" %13.2f %11.1f %11.1f %5zu of %zu\n", what.ratio(kLookup, kTable),
           what.ratio(kUcx, kLookup), what.ratio(kUcx, kInline), what.disturbed(),
           what.rounds.size());
  }
}

// The worst of all cases that were measured and fit, and its verdict.
struct Bar {
  const char* what;
  double limit;
  bool at_least;
  std::function<bool(const Case&)> fits;
  std::function<double(const Case&)> value;
};

double fewest(const Case& like) {
  for (const Case& what : cases) {
    if (what.mode != like.mode || what.threads != like.threads || what.rounds.empty()) continue;
    return what.time(kLookup);
  }
  return 0;
}

bool judge(const Bar& bar) {
  std::vector<double> values;
  for (const Case& what : cases) {
    if (!what.rounds.empty() && bar.fits(what)) values.push_back(bar.value(what));
  }
  if (values.empty()) return true;
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  const double worst = bar.at_least ? *least : *most;
  const bool met = bar.at_least ? worst >= bar.limit : worst <= bar.limit;
  printf("%-58s worst %8.2f  bar %s %-6.4g %s\n", bar.what, worst,
         bar.at_least ? ">=" : "<=", bar.limit, met ? "met" : "MISSED");
  return met;
}

bool judge_all() {
  const auto throughput = [](const Case& what) { return what.mode == Mode::kThroughput; };
  const auto any = [](const Case&) { return true; };
  const auto over_table = [](const Case& what) { return what.ratio(kLookup, kTable); };
  std::vector<Bar> bars = {
      {"rdm_lookup, ns, throughput", kMostNs, false, throughput,
       [](const Case& what) { return what.time(kLookup); }},
      {"rdm_lookup / checked table, throughput and latency", kMostOverTable, false, any,
       over_table},
      {"rdm_lookup / itself with the fewest buffers", kMostOverFewest, false, any,
       [](const Case& what) { return what.time(kLookup) / fewest(what); }}};
  for (const size_t threads : {1, 2}) {
    if (subjects() <= kUcx) continue;
    // No call can cost so little: an empty one takes more than a twentieth of UCX's.
    bars.push_back({threads == 1 ? "UCX / rdm_lookup_inline, throughput, one thread"
                                 : "UCX / rdm_lookup_inline, throughput, two threads",
                    kLeastUnderUcx[threads - 1], true,
                    [threads](const Case& what) {
                      return what.mode == Mode::kThroughput && what.threads == threads;
                    },
                    [](const Case& what) { return what.ratio(kUcx, kInline); }});
  }
  bool met = true;
  for (const Bar& bar : bars) met = judge(bar) && met;
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
  register_cases();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return EXIT_FAILURE;
  benchmark::RunSpecifiedBenchmarks();
  if (subjects() <= kUcx) fprintf(stderr, "skipped: UCX: built without libucx-dev\n");
  print_table();
  const bool met = judge_all();
  if (is_short_form()) printf("short form: the figures above mean nothing\n");
  return met || is_short_form() ? EXIT_SUCCESS : EXIT_FAILURE;
}
