#include "regcache/heap_source.h"

#include "allocator/heap.h"
#include "allocator/os/limits.h"

namespace rdmalloc {

Status HeapSource::attach(RegionObserver* observer) noexcept { return heap.attach(observer); }

const RegionTable& HeapSource::regions() const noexcept { return heap.regions(); }

const Window& HeapSource::window() const noexcept { return heap.window(); }

uint64_t HeapSource::pin_limit() const noexcept {
  const uint64_t limit = os::lock_limit().effective();
  if (limit == os::kNoLimit) return limit;
  const uint64_t headroom = heap.budget().resolve(heap.options().amount(OptionId::headroom));
  return limit > headroom ? limit - headroom : 0;
}

bool HeapSource::warns() const noexcept { return heap.options().on(OptionId::warn); }

}  // namespace rdmalloc
