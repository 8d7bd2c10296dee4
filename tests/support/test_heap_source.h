// A test's own heap as a source of regions.
#pragma once

#include "allocator/pages/heap.h"
#include "regcache/domain/region_source.h"

namespace rdmalloc::fake {

class TestHeapSource final : public rdmalloc::RegionSource {
 public:
  explicit TestHeapSource(Heap& heap) : heap_(&heap) {}
  Status attach(RegionObserver* observer) noexcept override {
    return heap_->publisher().attach(observer);
  }
  const RegionTable& regions() const noexcept override { return heap_->regions(); }
  const Window& window() const noexcept override { return heap_->window(); }
  const PageMarks* marks() const noexcept override { return &heap_->marks(); }
  bool populate(const Region& region, PagesFor who) const noexcept override {
    return heap_->populator().populate(region, who);
  }
  uint64_t pin_limit() const noexcept override { return UINT64_MAX; }
  bool warns() const noexcept override { return false; }

 private:
  Heap* const heap_;
};

}  // namespace rdmalloc::fake
