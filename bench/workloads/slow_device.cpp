// How long lookups take while a large region is being registered with a device that needs 0.2 s per
// GiB.
#include <stdlib.h>
#include <time.h>

#include <algorithm>

#include "bench/workloads/library.h"
#include "bench/workloads/meter.h"

namespace rdmalloc::bench {
namespace {

constexpr size_t kSmall = 4096;
constexpr size_t kSmallBlocks = 64;
constexpr uint64_t kSettleNs = 200'000'000;  // until all existing memory is registered
constexpr uint64_t kLongestNs = 60'000'000'000;

int limits(void*, rdm_backend_limits*) { return RDM_OK; }

void nap_for(uint64_t ns) {
  timespec nap{};
  nap.tv_sec = static_cast<time_t>(ns / 1'000'000'000);
  nap.tv_nsec = static_cast<long>(ns % 1'000'000'000);
  (void)nanosleep(&nap, nullptr);
}

int register_memory(void*, const rdm_backend_request* request, rdm_backend_key* out, char*,
                    size_t) {
  static unsigned keys = 0;
  nap_for(request->length / 5 * 1'000'000'000 >> 30);
  *out = {__atomic_add_fetch(&keys, 1, __ATOMIC_RELAXED), 0, request->base};
  return RDM_OK;
}

int deregister_memory(void*, const rdm_backend_key*) { return RDM_OK; }

constexpr rdm_backend kSlow = {sizeof kSlow,      "slow", limits, register_memory,
                               deregister_memory, nullptr};

uint64_t now_ns() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec);
}

}  // namespace

// slow_device BYTES: lookups of random pages in a newly malloc'd block of that size, and of small
// blocks allocated meanwhile, until all of the block is registered. Reports the longest lookup, and
// how many found nothing.
void run_slow_device(const Arguments& arguments, Meter& meter) {
  rdm_domain* const domain = library().open(kSlow);
  nap_for(kSettleNs);
  auto* const block = static_cast<char*>(malloc(arguments.bytes));
  if (block == nullptr) fail("malloc", "no memory");
  void* small[kSmallBlocks] = {};
  Random random(1);
  uint64_t worst = 0;
  uint64_t count = 0;
  uint64_t missed = 0;
  meter.start();
  const uint64_t begin = now_ns();
  for (rdm_mr mr{}; mr.length < arguments.bytes && now_ns() - begin < kLongestNs; ++count) {
    void*& own = small[count % kSmallBlocks];
    free(own);
    own = malloc(kSmall);
    const size_t page = random.below(arguments.bytes / kSmall);
    for (void* const buffer : {own, static_cast<void*>(block + page * kSmall)}) {
      const uint64_t start = now_ns();
      missed += library().lookup(domain, buffer, kSmall, &mr) == RDM_OK ? 0 : 1;
      worst = std::max(worst, now_ns() - start);
    }
  }
  meter.stop();
  report("worst_ns", worst);
  report("actions", count);
  report("missed", missed);
}

}  // namespace rdmalloc::bench
