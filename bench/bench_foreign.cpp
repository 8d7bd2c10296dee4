// From a buffer outside the heap to its key and back, always a hit: rdm_get and rdm_put against
// UCX's registration cache and an interval map under a lock, in one process and one run. Also the
// cost of a get if nothing is ever requested twice and little may be registered.
#include <benchmark/benchmark.h>
#include <stdio.h>
#include <stdlib.h>

#include <list>
#include <string>
#include <vector>

#include "bench/foreign/field.h"
#include "bench/foreign/flood.h"
#include "bench/lookup/race.h"
#include "bench/peers/free_device.h"
#include "bench/support/allocator.h"
#include "bench/support/can_lock.h"
#include "bench/support/contest.h"

using namespace rdmalloc::bench;

namespace {

constexpr size_t kCounts[] = {100, 1000, 20000};
constexpr unsigned kMostRegistered = 32768;
// Buffers registered with an io_uring: foreign memory leaves a quarter of its table free.
constexpr size_t kInRing = 700;
constexpr size_t kLocked = size_t{256} << 20;
constexpr double kLeastUnderUcx[] = {2, 10};  // with one thread, with two threads

enum Side { kOurs, kMap, kUcx };

struct Case {
  const ForeignField* field;
  Shape shape;
  Mode mode;
  size_t threads;
  const char* device;
  Contest contest;
  bool is_judged() const { return mode == Mode::kThroughput; }
};

// Lists, because Google Benchmark keeps references.
std::list<Case> cases;
std::list<ForeignField> fields;

std::vector<std::string> sides() {
  std::vector<std::string> names = {"rdm_get+put", "map"};
  if (BENCH_HAS_UCX) names.emplace_back("UCX");
  return names;
}

// What a thread has got and not yet put back. The destructor puts back the rest.
template <typename Got, typename Put>
class Held {
 public:
  ~Held() {
    for (Got& got : got_) put(got);
  }
  // The slot for the next one: that of the oldest.
  Got& next() {
    Got& place = got_[next_++ % kMost];
    put(place);
    return place;
  }

 private:
  static constexpr size_t kMost = 8;
  static void put(Got& got) { Put()(got); }

  Got got_[kMost] = {};
  size_t next_ = 0;
};

struct Ours {
  rdm_domain* domain;
  rdm_mr mr;
};
struct PutOurs {
  void operator()(Ours& ours) const {
    if (ours.domain != nullptr) rdm_put(ours.domain, &ours.mr);
    ours.domain = nullptr;
  }
};
thread_local Held<Ours, PutOurs> held_of_ours;

#if BENCH_HAS_UCX
struct Theirs {
  const UcxCache* cache;
  const UcxCache::Region* region;
};
struct PutTheirs {
  void operator()(Theirs& theirs) const {
    if (theirs.cache != nullptr) theirs.cache->put(theirs.region);
    theirs.cache = nullptr;
  }
};
thread_local Held<Theirs, PutTheirs> held_of_theirs;
#endif

// Keeps several buffers referenced at a time.
template <Mode kMode>
Slice slice_held(const ForeignField& field, size_t threads, size_t side, uint64_t time) {
  const auto of = [&](const auto& find) {
    return race<kMode>(field.orders(Shape::kHeld), threads, time, find);
  };
#if BENCH_HAS_UCX
  if (side == kUcx) {
    return of([ucx = field.ucx.get()](const Buffer& buffer) {
      Theirs& place = held_of_theirs.next();
      place = {ucx, ucx->get(buffer.address, buffer.length)};
      return place.region->key;
    });
  }
#endif
  (void)side;
  return of([domain = field.domain](const Buffer& buffer) {
    Ours& place = held_of_ours.next();
    if (rdm_get(domain, buffer.address, buffer.length, &place.mr) == RDM_OK) place.domain = domain;
    return place.mr.lkey;
  });
}

template <Mode kMode>
Slice slice(const ForeignField& field, Shape shape, size_t threads, size_t side) {
  const uint64_t time = is_short_form() ? 200'000 : 4'000'000;
  if (shape == Shape::kHeld && side != kMap) return slice_held<kMode>(field, threads, side, time);
  const auto of = [&](const auto& find) {
    return race<kMode>(field.orders(shape), threads, time, find);
  };
  if (side == kOurs) {
    return of([domain = field.domain](const Buffer& buffer) {
      rdm_mr mr;
      if (rdm_get(domain, buffer.address, buffer.length, &mr) != RDM_OK) return uint32_t{0};
      const uint32_t key = mr.lkey;
      rdm_put(domain, &mr);
      return key;
    });
  }
#if BENCH_HAS_UCX
  if (side == kUcx) {
    return of([ucx = field.ucx.get()](const Buffer& buffer) {
      const UcxCache::Region* region = ucx->get(buffer.address, buffer.length);
      const uint32_t key = region->key;
      ucx->put(region);
      return key;
    });
  }
#endif
  return of([map = &field.map](const Buffer& buffer) {
    rdm_mr mr;
    map->find(buffer.address, buffer.length, &mr);
    return mr.lkey;
  });
}

const char* name(Shape shape) {
  constexpr const char* kNames[] = {"whole", "part", "private", "held"};
  return kNames[static_cast<size_t>(shape)];
}

const char* name(Mode mode) { return mode == Mode::kThroughput ? "throughput" : "latency"; }

template <Mode kMode>
void add_case(const ForeignField& field, Shape shape, size_t threads, const char* device) {
  Case& added = cases.emplace_back(Case{&field, shape, kMode, threads, device, {}});
  added.contest.name = std::string("foreign/") + device + "/" + name(kMode) + "/" + name(shape) +
                       "/" + std::to_string(field.buffers.size()) +
                       "/threads:" + std::to_string(threads);
  added.contest.sides = sides();
  added.contest.rounds = rounds(31);
  added.contest.slice = [&field, shape, threads](size_t side) {
    return slice<kMode>(field, shape, threads, side);
  };
}

rdm_domain* open_ring_domain() {
  char why[256] = "";
  rdm_domain_options options{};
  options.size = sizeof options;
  options.error = why;
  options.error_size = sizeof why;
  rdm_domain* domain = nullptr;
  if (rdm_domain_open_io_uring(-1, &options, &domain) == RDM_OK) return domain;
  fprintf(stderr, "skipped: io_uring: %s\n", why);
  return nullptr;
}

void add_cases(const std::vector<Buffer>& buffers) {
  rdm_domain_options options{};
  options.foreign_count = kMostRegistered;
  rdm_domain* const free_domain = open_free_domain(options);
  for (const size_t count : kCounts) {
    const ForeignField& field = fields.emplace_back(free_domain, buffers, count);
    for (const size_t threads : {1, 2}) {
      add_case<Mode::kThroughput>(field, Shape::kWhole, threads, "free");
      add_case<Mode::kThroughput>(field, Shape::kPart, threads, "free");
      add_case<Mode::kThroughput>(field, Shape::kHeld, threads, "free");
      if (threads == 2) add_case<Mode::kThroughput>(field, Shape::kPrivate, threads, "free");
      add_case<Mode::kLatency>(field, Shape::kWhole, threads, "free");
    }
  }
  rdm_domain* const ring = open_ring_domain();
  if (ring == nullptr) return;
  const ForeignField& field = fields.emplace_back(ring, buffers, kInRing);
  for (const size_t threads : {1, 2}) {
    add_case<Mode::kThroughput>(field, Shape::kWhole, threads, "io_uring");
  }
}

void print_table() {
  printf("\nCPU ns per get and put, and thread\n%-9s %-10s %-8s %7s %7s", "device", "", "",
         "threads", "buffers");
  for (const std::string& side : sides()) printf(" %11s", side.c_str());
  printf("  map/ours  UCX/ours  disturbed\n");
  for (const Case& what : cases) {
    const Contest& contest = what.contest;
    if (contest.measured.empty()) continue;
    printf("%-9s %-10s %-8s %7zu %7zu", what.device, name(what.mode), name(what.shape),
           what.threads, what.field->buffers.size());
    for (size_t i = 0; i < contest.sides.size(); ++i) printf(" %11.2f", contest.time(i));
    printf(" %9.2f", contest.ratio(kMap, kOurs));
    if (BENCH_HAS_UCX) {
      printf(" %9.2f", contest.ratio(kUcx, kOurs));
    } else {
      printf(" %9s", "-");
    }
    printf(" %5zu of %zu\n", contest.disturbed(), contest.measured.size());
  }
}

bool judge_all() {
  if (!BENCH_HAS_UCX) return true;
  bool met = true;
  for (const size_t threads : {1, 2}) {
    std::vector<double> ratios;
    for (const Case& what : cases) {
      if (what.threads != threads || !what.is_judged() || what.contest.measured.empty()) continue;
      ratios.push_back(what.contest.ratio(kUcx, kOurs));
    }
    met = judge("UCX / rdm_get and rdm_put, throughput, threads: " + std::to_string(threads),
                ratios, Limit::kAtLeast, kLeastUnderUcx[threads - 1]) &&
          met;
  }
  return met;
}

// Checks that hardly any get timed as a hit was a registration, and that every get meant as one
// was. A few hits may be: once a second the interposed monitor checks whether calls still come
// through its functions, and memory requested at that moment may not be kept.
bool were_hits(const rdm_stats& before, const Flood& flood) {
  rdm_stats after{};
  rdm_stats_get(&after, sizeof after);
  const uint64_t missed = after.foreign_misses - before.foreign_misses;
  if (missed >= flood.gets() && missed - flood.gets() <= flood.gets() / 20) return true;
  fprintf(stderr, "%llu buffers were registered, and should have been %llu\n",
          static_cast<unsigned long long>(missed), static_cast<unsigned long long>(flood.gets()));
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  if (!can_lock(kLocked)) return kSkipped;
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return EXIT_FAILURE;
  const std::vector<Buffer> buffers = map_buffers(std::end(kCounts)[-1]);
  add_cases(buffers);
  for (Case& what : cases) add(what.contest, kOurs);
  Flood flood;
  flood.add();
  const char* why = "";
  const char* const monitor = rdm_monitor(&why);
  printf("monitor: %s: %s\n", monitor, why);
  rdm_stats before{};
  rdm_stats_get(&before, sizeof before);
  benchmark::RunSpecifiedBenchmarks();
  if (!BENCH_HAS_UCX) fprintf(stderr, "skipped: UCX: built without libucx-dev\n");
  print_table();
  flood.print();
  const bool right = were_hits(before, flood);
  const bool met = judge_all();
  if (is_short_form()) printf("short form: the figures above mean nothing\n");
  return right && flood.kept_limits() && (met || is_short_form()) ? EXIT_SUCCESS : EXIT_FAILURE;
}
