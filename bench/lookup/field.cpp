#include "bench/lookup/field.h"

#include <stdio.h>
#include <stdlib.h>

#include <cmath>

#include "bench/peers/free_device.h"
#include "bench/workloads/meter.h"

namespace rdmalloc::bench {
namespace {

constexpr size_t kOrder = size_t{1} << 15;
constexpr double kSmallest = 64;
constexpr double kDoublings = 10;

[[noreturn]] void fail(const char* what) {
  fprintf(stderr, "bench_lookup: %s\n", what);
  exit(EXIT_FAILURE);
}

bool covers(const rdm_mr& mr, const Buffer& buffer) {
  const auto* base = static_cast<const char*>(mr.base);
  return base <= buffer.address && buffer.address + buffer.length <= base + mr.length;
}

}  // namespace

std::vector<Buffer> allocate_buffers(size_t count) {
  Random random(7);
  std::vector<Buffer> buffers;
  for (size_t i = 0; i < count; ++i) {
    const double unit = static_cast<double>(random.below(1 << 20)) / (1 << 20);
    const auto length = static_cast<uint32_t>(kSmallest * std::exp2(kDoublings * unit));
    auto* address = static_cast<char*>(malloc(length));
    if (rdm_owns(address) == 0) fail("malloc is not rdmalloc's");
    buffers.push_back({address, length, static_cast<uint32_t>(i)});
  }
  return buffers;
}

Field::Field(const rdm_domain* opened, const std::vector<Buffer>& all, size_t count)
    : domain(opened), buffers(all.begin(), all.begin() + static_cast<ptrdiff_t>(count)) {
#if BENCH_HAS_UCX
  ucx = std::make_unique<UcxCache>(free_registrar());
#endif
  table = CheckedTable::of(domain);
  for (const Buffer& buffer : buffers) {
    rdm_mr mr{};
    if (rdm_lookup(domain, buffer.address, buffer.length, &mr) != RDM_OK) {
      fail("a malloc'd buffer has no key: unset RDMALLOC_CAP, and see rdmalloc doctor");
    }
    array.push_back(mr.lkey);
    map.add(buffer.address, buffer.length, mr.lkey);
  }
  verify();
  for (unsigned i = 0; i < kMostThreads; ++i) orders_.push_back(shuffled(i + 1));
}

void Field::verify() const {
  for (const Buffer& buffer : buffers) {
    rdm_mr ours{};
    rdm_mr theirs{};
    rdm_lookup(domain, buffer.address, buffer.length, &ours);
    if (!covers(ours, buffer)) fail("rdm_lookup's answer does not cover the buffer");
    if (bench_checked_lookup(&table, buffer.address, buffer.length, &theirs) != RDM_OK ||
        theirs.lkey != ours.lkey) {
      fail("the checked table disagrees with rdm_lookup");
    }
    if (map.find(buffer.address, buffer.length, &theirs) != RDM_OK || theirs.lkey != ours.lkey) {
      fail("the interval map disagrees with rdm_lookup");
    }
#if BENCH_HAS_UCX
    const UcxCache::Region* region = ucx->get(buffer.address, buffer.length);
    if (region == nullptr) fail("UCX's cache refuses a buffer");
    ucx->put(region);
#endif
  }
}

std::vector<Buffer> Field::shuffled(unsigned seed) const {
  Random random(seed);
  std::vector<Buffer> order;
  for (size_t i = 0; i < kOrder; ++i) order.push_back(buffers[random.below(buffers.size())]);
  return order;
}

}  // namespace rdmalloc::bench
