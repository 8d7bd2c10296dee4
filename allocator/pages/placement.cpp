#include "allocator/pages/placement.h"

#include "allocator/limits/options.h"
#include "allocator/os/memory.h"

namespace rdmalloc {

void Placement::boot(uint64_t choice) {
  is_on_ = choice != kNumaOff && os::has_several_nodes() && !os::has_memory_policy();
  is_by_touch_ = is_on_ && choice == kNumaFirstTouch;
}

void Placement::place(const RegionFacts& region, void* address, size_t bytes) const {
  if (!is_on_ || region.by_touch || os::has_memory_policy()) return;
  (void)os::prefer_node(address, bytes, region.node);
}

int Placement::node_of(const RegionFacts& region, const void* address, size_t bytes) const {
  if (!region.by_touch || region.kind != RegionKind::kPinned) return region.node;
  const int node = os::node_of_pages(address, bytes);
  if (node == os::kSeveralNodes) return os::current_node();
  return node == os::kNoNode ? region.node : node;
}

}  // namespace rdmalloc
