// The process's heap as the source of regions.
#pragma once

#include "regcache/domain/region_source.h"

namespace rdmalloc {

class HeapSource final : public RegionSource {
 public:
  constexpr HeapSource() = default;
  ~HeapSource() = default;

  Status attach(RegionObserver* observer) noexcept override;
  const RegionTable& regions() const noexcept override;
  const Window& window() const noexcept override;
  const PageMarks* marks() const noexcept override;
  bool populate(const Region& region, PagesFor who) const noexcept override;
  bool populate_part(const Region& region, uintptr_t from, uintptr_t to) const noexcept override;
  uint64_t pin_limit() const noexcept override;
  ForeignDefaults foreign() const noexcept override;
  void note_registrations(uint64_t domains, uint64_t bytes, uint64_t pinned) noexcept override;
  void call_before_forks(void (*release)(void* context), void* context) noexcept override;
  bool copies_pinned_at_fork() const noexcept override;
  bool warns() const noexcept override;
};

}  // namespace rdmalloc
