// Copies between malloc'd memory and a CUDA device, with and without an open domain; and opening
// another process's device memory, through the cache and anew each time. Without a device this
// skips, and says why.
#include <benchmark/benchmark.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include <list>
#include <string>
#include <vector>

#include "bench/cuda/driver.h"
#include "bench/support/allocator.h"
#include "bench/support/can_lock.h"
#include "bench/support/contest.h"
#include "rdmalloc/remote.h"

using namespace rdmalloc::bench;

namespace {

constexpr size_t kLargest = size_t{256} << 20;
constexpr size_t kBytesPerSlice = size_t{512} << 20;
constexpr size_t kExported = size_t{2} << 20;
constexpr unsigned kLazyEnablePeerAccess = 1;

CudaDriver cuda;

[[noreturn]] void fail(const char* what, const char* why) {
  fprintf(stderr, "bench_cuda: %s: %s\n", what, why);
  exit(EXIT_FAILURE);
}

double now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

// ns per call, averaged over `times` calls.
template <typename Call>
Slice time_of(size_t times, const Call& call) {
  const double started = now_ns();
  for (size_t i = 0; i < times; ++i) {
    if (!call()) fail("measuring", "a call of the driver, or of the library, failed");
  }
  return {(now_ns() - started) / static_cast<double>(times)};
}

// The only domain; opened and closed between the slices measured with and without it.
class Switch {
 public:
  void turn(bool on) {
    if (on == (domain_ != nullptr)) return;
    if (on) {
      char why[512] = "";
      rdm_domain_options options{};
      options.size = sizeof options;
      options.error = why;
      options.error_size = sizeof why;
      if (rdm_domain_open_cuda(nullptr, &options, &domain_) != RDM_OK) {
        fail("rdm_domain_open_cuda", why);
      }
    } else {
      if (rdm_domain_close(domain_) != RDM_OK) fail("rdm_domain_close", rdm_last_error());
      domain_ = nullptr;
    }
  }

 private:
  rdm_domain* domain_ = nullptr;
};

Switch domain;

enum class Way { kToDevice, kToHost };
enum Side { kWith, kWithout };

struct Copy {
  size_t bytes;
  Way way;
  char* host;
  CudaDriver::Address device;
  Contest contest;

  Slice slice(size_t side) const {
    domain.turn(side == kWith);
    const auto copy = [this] {
      return (way == Way::kToDevice ? cuda.copy_to_device(device, host, bytes)
                                    : cuda.copy_to_host(host, device, bytes)) == 0;
    };
    if (!copy()) fail("copying", "the driver refused");
    const size_t most = kBytesPerSlice / bytes;
    return time_of(is_short_form() ? 2 : (most < 1000 ? most : 1000), copy);
  }
};

std::list<Copy> copies;  // Google Benchmark keeps references

void add_copies() {
  CudaDriver::Address device = 0;
  const size_t largest = is_short_form() ? size_t{1} << 20 : kLargest;
  if (cuda.allocate(&device, largest) != 0) fail("cuMemAlloc", "the device has no memory");
  auto* host = static_cast<char*>(malloc(largest));
  if (host == nullptr) fail("malloc", "no memory");
  memset(host, 1, largest);
  for (size_t bytes = size_t{64} << 10; bytes <= largest; bytes *= 16) {
    for (const Way way : {Way::kToDevice, Way::kToHost}) {
      Copy& copy = copies.emplace_back(Copy{bytes, way, host, device, {}});
      copy.contest.name = std::string("cuda/") +
                          (way == Way::kToDevice ? "to_device/" : "to_host/") +
                          std::to_string(bytes >> 10) + "K";
      copy.contest.sides = {"with", "without"};
      copy.contest.rounds = rounds(9);
      copy.contest.slice = [&copy](size_t side) { return copy.slice(side); };
      add(copy.contest, kWith);
    }
  }
}

// Another process's device memory, as that process described it. The process lives as long as this
// one.
struct Peer {
  rdm_remote_memory memory{};
  CudaDriver::Handle handle{};
  int status = RDM_UNSUPPORTED;
};

[[noreturn]] void be_exporter(int to) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  Peer peer;
  char handle[RDM_REMOTE_MAX_HANDLE] = {};
  CudaDriver::Address memory = 0;
  if (cuda.use_device() == nullptr && cuda.allocate(&memory, kExported) == 0) {
    peer.status = rdm_cuda_export(reinterpret_cast<void*>(memory), &peer.memory, handle);
    memcpy(&peer.handle, handle, sizeof peer.handle);
  }
  if (write(to, &peer, sizeof peer) == sizeof peer) pause();
  _exit(0);
}

// Call before this process initializes the driver, which does not work in forked children.
int start_exporter(pid_t* exporter) {
  int ends[2];
  if (pipe(ends) != 0) fail("pipe", strerror(errno));
  *exporter = fork();
  if (*exporter == 0) be_exporter(ends[1]);
  close(ends[1]);
  return ends[0];
}

Peer peer;
rdm_remote_cache* cache = nullptr;
Contest opening;

bool open_through_cache() {
  rdm_remote_mapping mapping{};
  return rdm_remote_get(cache, &peer.memory, &mapping) == RDM_OK &&
         rdm_remote_put(cache, &mapping) == RDM_OK;
}

bool open_anew() {
  CudaDriver::Address address = 0;
  return cuda.ipc_open(&address, peer.handle, kLazyEnablePeerAccess) == 0 &&
         cuda.ipc_close(address) == 0;
}

// Handles still open through the cache would make opening anew cheap, or impossible.
Slice opening_slice(size_t side) {
  const size_t times = is_short_form() ? 10 : 1000;
  if (side == kWithout) return time_of(times, open_anew);
  if (rdm_remote_cache_open_cuda(nullptr, nullptr, &cache) != RDM_OK) {
    fail("rdm_remote_cache_open_cuda", rdm_last_error());
  }
  if (!open_through_cache()) fail("rdm_remote_get", rdm_last_error());
  const Slice slice = time_of(100 * times, open_through_cache);
  if (rdm_remote_cache_close(cache) != RDM_OK) fail("rdm_remote_cache_close", rdm_last_error());
  return slice;
}

void add_opening(int from) {
  if (read(from, &peer, sizeof peer) != sizeof peer || peer.status != RDM_OK) {
    fprintf(stderr, "skipped: handles: the other process could not export device memory\n");
    return;
  }
  peer.memory.peer = 1;
  peer.memory.handle = &peer.handle;
  opening.name = "cuda/open_handle";
  opening.sides = {"with", "without"};
  opening.rounds = rounds(9);
  opening.slice = opening_slice;
  add(opening, kWith);
}

void print_table() {
  printf("\nGB/s by wall time, malloc'd memory\n%-28s %10s %10s %14s\n", "", "domain", "none",
         "domain/none");
  for (const Copy& copy : copies) {
    if (copy.contest.measured.empty()) continue;
    const auto bytes = static_cast<double>(copy.bytes);
    printf("%-28s %10.2f %10.2f %14.2f\n", copy.contest.name.c_str(),
           bytes / copy.contest.time(kWith), bytes / copy.contest.time(kWithout),
           copy.contest.ratio(kWithout, kWith));
  }
  if (opening.measured.empty()) return;
  printf("\nns to open and close a handle: cached %.1f, anew %.0f, ratio %.0f\n",
         opening.time(kWith), opening.time(kWithout), opening.ratio(kWithout, kWith));
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return EXIT_FAILURE;
  pid_t exporter = -1;
  int from = -1;
  const char* missing = cuda.load();
  if (missing == nullptr) {
    from = start_exporter(&exporter);
    missing = cuda.use_device();
  }
  if (missing != nullptr) {
    fprintf(stderr, "skipped: %s\n", missing);
    if (exporter > 0) kill(exporter, SIGKILL);
    return kSkipped;
  }
  add_copies();
  add_opening(from);
  benchmark::RunSpecifiedBenchmarks();
  domain.turn(false);
  print_table();
  if (is_short_form()) printf("short form: the figures above mean nothing\n");
  kill(exporter, SIGKILL);
  return EXIT_SUCCESS;
}
