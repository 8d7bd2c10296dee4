// A set of buffers outside the heap, each mmap'd separately, and the caches that have them
// registered: every query for them is a hit.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "bench/lookup/buffer.h"
#include "bench/peers/interval_map.h"
#include "bench/peers/ucx_cache.h"
#include "rdmalloc/rdmalloc.h"

namespace rdmalloc::bench {

// What the threads ask for.
enum class Shape {
  kWhole,    // whole buffers, as they were registered
  kPart,     // a random part of a buffer
  kPrivate,  // whole buffers, from each thread's own share
  kHeld,     // whole buffers, several of which each thread holds before it gives the first one back
};

// For race(): what each thread asks for, in random order, and so many that the processor cannot
// learn it.
class Orders {
 public:
  static constexpr size_t kMostThreads = 2;
  Orders(const std::vector<Buffer>& buffers, Shape shape);
  const std::vector<Buffer>& random_order(size_t thread) const { return orders_[thread]; }

 private:
  std::vector<std::vector<Buffer>> orders_;
};

// Buffers of 4 to 64 KiB, equally many per doubling, with a page between them, because UCX would
// join adjacent ones. Never unmapped.
std::vector<Buffer> map_buffers(size_t count);

// Exits if one of the caches refuses a buffer, or registers part of one anew.
class ForeignField {
 public:
  ForeignField(rdm_domain* opened, const std::vector<Buffer>& all, size_t count);

  rdm_domain* const domain;
  const std::vector<Buffer> buffers;
  IntervalMap map;
#if BENCH_HAS_UCX
  std::unique_ptr<UcxCache> ucx;
#endif
  const Orders& orders(Shape shape) const { return orders_[static_cast<size_t>(shape)]; }

 private:
  void verify() const;

  std::vector<Orders> orders_;
};

}  // namespace rdmalloc::bench
