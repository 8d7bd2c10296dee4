#include "bench/foreign/flood.h"

#include <benchmark/benchmark.h>
#include <stdio.h>

#include <algorithm>
#include <numeric>

#include "allocator/os/newer_headers.h"
#include "allocator/os/system_call.h"
#include "bench/lookup/race.h"
#include "bench/peers/free_device.h"
#include "bench/support/allocator.h"
#include "bench/workloads/meter.h"

namespace rdmalloc::bench {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kBuffers = size_t{1} << 20;
constexpr size_t kChunk = 4096;  // buffers that each side gets before the next side's turn
constexpr const char* kTitles[] = {"rdm_get+put, free device", "UCX, free device",
                                   "rdm_get+put, io_uring", "bare io_uring"};
constexpr const char* kKeys[] = {"free", "ucx_free", "io_uring", "bare"};

uint64_t foreign_regions() {
  rdm_stats stats{};
  rdm_stats_get(&stats, sizeof stats);
  return stats.foreign_regions;
}

template <typename Ask>
void time_each(std::vector<uint32_t>& times, char* chunk, size_t buffers, const Ask& ask) {
  uint64_t before = now_ns(CLOCK_MONOTONIC);
  for (size_t i = 0; i < buffers; ++i) {
    ask(chunk + i * kPage);
    const uint64_t after = now_ns(CLOCK_MONOTONIC);
    times.push_back(static_cast<uint32_t>(after - before));
    before = after;
  }
}

void get_and_put(rdm_domain* domain, char* buffer) {
  rdm_mr mr{};
  if (rdm_get(domain, buffer, kPage, &mr) != RDM_OK) fail("rdm_get", rdm_last_error());
  if (rdm_put(domain, &mr) != RDM_OK) fail("rdm_put", rdm_last_error());
}

// Bypasses the library, because this is not measured and none of the memory is still registered.
void drop_pages(char* chunk, size_t length) {
  os::system_call(SYS_madvise, os::word(chunk), static_cast<long>(length), MADV_DONTNEED);
}

}  // namespace

void Flood::add() {
  benchmark::RegisterBenchmark("flood/limit:64", [this](benchmark::State& state) { run(state); })
      ->UseManualTime()
      ->Iterations(1)
      ->Unit(benchmark::kNanosecond);
}

void Flood::open() {
  rdm_domain_options options{};
  options.size = sizeof options;
  options.foreign_count = kLimit;
  domains_[kOursFree] = open_free_domain(options);
  if (rdm_domain_open_io_uring(shared_ring_.fd(), &options, &domains_[kOursRing]) != RDM_OK) {
    fprintf(stderr, "skipped: io_uring: no domain\n");
  }
  ring_.make_table(1);
#if BENCH_HAS_UCX
  ucx_ = std::make_unique<UcxCache>(free_registrar(), kLimit);
#endif
  regions_before_ = foreign_regions();
}

void Flood::ask_for_all(Side side, char* chunk, size_t buffers) {
  std::vector<uint32_t>& times = times_[side];
  if (side == kBareRing) {
    time_each(times, chunk, buffers, [this](char* buffer) {
      ring_.add(0, buffer, kPage);
      ring_.remove(0);
    });
    return;
  }
#if BENCH_HAS_UCX
  if (side == kUcxFree) {
    time_each(times, chunk, buffers, [this](char* buffer) {
      const UcxCache::Region* region = ucx_->get(buffer, kPage);
      if (region == nullptr) fail("ucs_rcache_get", "refuses a buffer");
      ucx_->put(region);
    });
    return;
  }
#endif
  rdm_domain* const domain = domains_[side];
  if (domain == nullptr) return;
  time_each(times, chunk, buffers, [domain](char* buffer) { get_and_put(domain, buffer); });
  gets_ += buffers;
}

void Flood::check_limits() {
  most_regions_ = std::max(most_regions_, foreign_regions() - regions_before_);
  const size_t limit = kLimit * (domains_[kOursRing] == nullptr ? 1 : 2);
  if (most_regions_ > limit) kept_limits_ = false;
}

// One range of address space; after each side has used it, its pages are given back to the kernel,
// so that it does not take gigabytes.
void Flood::run(benchmark::State& state) {
  const size_t count = is_short_form() ? 2 * kChunk : kBuffers;
  open();
  void* mapped = mmap(nullptr, count * kPage, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) fail("mmap", "no address space");
  madvise(mapped, count * kPage, MADV_NOHUGEPAGE);
  auto* const base = static_cast<char*>(mapped);
  for (std::vector<uint32_t>& times : times_) times.reserve(count);
  for (auto unused : state) {
    (void)unused;
    for (size_t done = 0; done < count; done += kChunk) {
      char* const chunk = base + done * kPage;
      if (madvise(chunk, kChunk * kPage, MADV_POPULATE_WRITE) != 0) fail("madvise", "no memory");
      for (size_t i = 0; i < kSides; ++i) {
        ask_for_all(static_cast<Side>((i + done / kChunk) % kSides), chunk, kChunk);
      }
      check_limits();
      if (done != 0) drop_pages(chunk - kChunk * kPage, kChunk * kPage);
    }
    state.SetIterationTime(figures(kOursFree).mean * 1e-9);
  }
  for (size_t i = 0; i < kSides; ++i) {
    const auto side = static_cast<Side>(i);
    if (!has(side)) continue;
    const Figures got = figures(side);
    const std::string key = kKeys[i];
    state.counters["ns_mean_" + key] = got.mean;
    state.counters["ns_p99_" + key] = got.p99;
    state.counters["ns_max_" + key] = got.max;
  }
  state.counters["most_registered"] = static_cast<double>(most_regions_);
}

Flood::Figures Flood::figures(Side side) const {
  std::vector<uint32_t> times = times_[side];
  if (times.empty()) return {};
  std::sort(times.begin(), times.end());
  const auto at = [&](size_t of) { return static_cast<double>(times[times.size() - 1 - of]); };
  const double sum = std::accumulate(times.begin(), times.end(), 0.0);
  const size_t count = times.size();
  return {sum / static_cast<double>(count), at(count / 100), at(count / 10000), at(0)};
}

void Flood::print() const {
  if (!has(kOursFree)) return;
  printf("\n%zu buffers of 4 KiB, each once; at most %u registered: wall ns of a get and put\n",
         times_[kOursFree].size(), kLimit);
  printf("%-26s %10s %10s %10s %12s\n", "", "mean", "p99", "p99.99", "max");
  for (size_t i = 0; i < kSides; ++i) {
    const auto side = static_cast<Side>(i);
    if (!has(side)) continue;
    const Figures got = figures(side);
    printf("%-26s %10.0f %10.0f %10.0f %12.0f\n", kTitles[i], got.mean, got.p99, got.p9999,
           got.max);
  }
  printf("most registered at a time, of all domains: %llu %s\n",
         static_cast<unsigned long long>(most_regions_), kept_limits_ ? "" : "TOO MANY");
}

}  // namespace rdmalloc::bench
