#include "bench/foreign/field.h"

#include <sys/mman.h>

#include <cmath>

#include "bench/peers/free_device.h"
#include "bench/workloads/meter.h"

namespace rdmalloc::bench {
namespace {

constexpr size_t kOrder = size_t{1} << 15;
constexpr size_t kPage = 4096;
constexpr double kDoublings = 4;
constexpr size_t kPartAlign = 64;

Buffer part_of(const Buffer& buffer, Random& random) {
  const size_t first = random.below(buffer.length / kPartAlign) * kPartAlign;
  const size_t length = 1 + random.below(buffer.length - first);
  return {buffer.address + first, static_cast<uint32_t>(length), buffer.index};
}

}  // namespace

Orders::Orders(const std::vector<Buffer>& buffers, Shape shape) {
  for (size_t thread = 0; thread < kMostThreads; ++thread) {
    Random random(thread + 1);
    std::vector<Buffer>& order = orders_.emplace_back();
    const size_t share = buffers.size() / kMostThreads;
    for (size_t i = 0; i < kOrder; ++i) {
      const Buffer& buffer = shape == Shape::kPrivate
                                 ? buffers[random.below(share) * kMostThreads + thread]
                                 : buffers[random.below(buffers.size())];
      order.push_back(shape == Shape::kPart ? part_of(buffer, random) : buffer);
    }
  }
}

std::vector<Buffer> map_buffers(size_t count) {
  Random random(7);
  std::vector<Buffer> buffers;
  for (size_t i = 0; i < count; ++i) {
    const double unit = static_cast<double>(random.below(1 << 20)) / (1 << 20);
    const auto pages = static_cast<size_t>(std::exp2(kDoublings * unit));
    void* address = mmap(nullptr, (pages + 1) * kPage, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (address == MAP_FAILED) fail("mmap", "no more mappings: see vm.max_map_count");
    buffers.push_back({static_cast<char*>(address), static_cast<uint32_t>(pages * kPage),
                       static_cast<uint32_t>(i)});
  }
  return buffers;
}

ForeignField::ForeignField(rdm_domain* opened, const std::vector<Buffer>& all, size_t count)
    : domain(opened), buffers(all.begin(), all.begin() + static_cast<ptrdiff_t>(count)) {
#if BENCH_HAS_UCX
  ucx = std::make_unique<UcxCache>(free_registrar());
#endif
  for (const Buffer& buffer : buffers) {
    rdm_mr mr{};
    if (rdm_get(domain, buffer.address, buffer.length, &mr) != RDM_OK) {
      fail("rdm_get", rdm_last_error());
    }
    map.add(buffer.address, buffer.length, mr.lkey);
    if (rdm_put(domain, &mr) != RDM_OK) fail("rdm_put", rdm_last_error());
#if BENCH_HAS_UCX
    const UcxCache::Region* region = ucx->get(buffer.address, buffer.length);
    if (region == nullptr) fail("ucs_rcache_get", "refuses a buffer");
    ucx->put(region);
#endif
  }
  for (const Shape shape : {Shape::kWhole, Shape::kPart, Shape::kPrivate, Shape::kHeld}) {
    orders_.emplace_back(buffers, shape);
  }
  verify();
}

// For the whole buffer or a part of it, the key must be that of the whole buffer.
void ForeignField::verify() const {
  for (const Shape shape : {Shape::kWhole, Shape::kPart, Shape::kPrivate}) {
    for (const Buffer& asked : orders(shape).random_order(0)) {
      rdm_mr ours{};
      rdm_mr theirs{};
      if (rdm_get(domain, asked.address, asked.length, &ours) != RDM_OK ||
          rdm_put(domain, &ours) != RDM_OK) {
        fail("a hit", rdm_last_error());
      }
      if (map.find(asked.address, asked.length, &theirs) != RDM_OK || theirs.lkey != ours.lkey) {
        fail("rdm_get",
             "registered a buffer anew that nothing happened to: userfaultfd watches too few, "
             "set RDMALLOC_MONITOR=interposed");
      }
    }
  }
}

}  // namespace rdmalloc::bench
