// A set of malloc'd buffers of mixed sizes, and everything that knows their keys.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "bench/lookup/buffer.h"
#include "bench/peers/checked_table.h"
#include "bench/peers/interval_map.h"
#include "bench/peers/ucx_cache.h"
#include "rdmalloc/rdmalloc.h"

namespace rdmalloc::bench {

// Buffers of 64 B to 64 KiB, equally many per doubling; never freed.
std::vector<Buffer> allocate_buffers(size_t count);

// Knows the first `count` of the buffers. Exits if two of its members disagree.
class Field {
 public:
  Field(const rdm_domain* domain, const std::vector<Buffer>& all, size_t count);

  const rdm_domain* const domain;
  const std::vector<Buffer> buffers;
  std::vector<uint32_t>
      array;  // by index: code that stores the key beside the buffer needs no lookup
  CheckedTable table;
  IntervalMap map;
#if BENCH_HAS_UCX
  std::unique_ptr<UcxCache> ucx;
#endif

  // Buffers in random order, so many that the processor cannot learn it; a different order for each
  // of kMostThreads.
  static constexpr size_t kMostThreads = 2;
  const std::vector<Buffer>& random_order(size_t thread) const { return orders_[thread]; }

 private:
  void verify() const;
  std::vector<Buffer> shuffled(unsigned seed) const;

  std::vector<std::vector<Buffer>> orders_;
};

}  // namespace rdmalloc::bench
