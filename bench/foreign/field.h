// A number of buffers that are not the heap's, each mmap'd for itself, and the caches that have
// them registered: every question about them is a hit.
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
  kWhole,    // buffers as they were registered
  kPart,     // from somewhere within a buffer to somewhere further in it
  kPrivate,  // whole buffers, of each thread's own share
  kHeld,     // whole buffers, of which each thread keeps some before it gives the first one back
};

// For race(): what each thread asks for, in random order, so much that the processor does not learn
// it.
class Orders {
 public:
  static constexpr size_t kMostThreads = 2;
  Orders(const std::vector<Buffer>& buffers, Shape shape);
  const std::vector<Buffer>& random_order(size_t thread) const { return orders_[thread]; }

 private:
  std::vector<std::vector<Buffer>> orders_;
};

// Buffers of 4 to 64 KiB, as many per doubling, with a page between them: UCX would join such as
// touch. Never unmapped.
std::vector<Buffer> map_buffers(size_t count);

// Exits when one of the caches refuses a buffer, or registers a part of one anew.
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
