// How much is acquired at a time.
//
// Runs inside malloc, under the growth lock: some arithmetic, and reads of sums that others may be
// changing.
#pragma once

#include <cstddef>

#include "allocator/pages/page_store.h"
#include "allocator/pages/publisher.h"

namespace rdmalloc {

class GrowthPolicy {
 public:
  // A heap that holds less is small.
  static constexpr size_t kSmallHeap = size_t{64} << 20;
  // Of what is held, while little is held.
  static constexpr size_t kEarlyShare = 4;

  constexpr GrowthPolicy(const PageStore& store, const Publisher& publisher)
      : store_(store), publisher_(publisher) {}
  GrowthPolicy(const GrowthPolicy&) = delete;
  GrowthPolicy& operator=(const GrowthPolicy&) = delete;

  // What would be acquired for a request: a step, or its own size.
  size_t amount(const Request& request) const REQUIRES(growth_lock);

 private:
  size_t step(RegionUse use) const REQUIRES(growth_lock);

  const PageStore& store_;
  const Publisher& publisher_;
};

}  // namespace rdmalloc
