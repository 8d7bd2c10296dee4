#include "regcache/domain/heap_source.h"

#include "allocator/os/copy_on_fork.h"
#include "allocator/os/limits.h"
#include "allocator/pages/heap.h"
#include "regcache/domain/fork_gate.h"

namespace rdmalloc {

Status HeapSource::attach(RegionObserver* observer) noexcept {
  heap.look_at_limits();
  return heap.publisher().attach(observer);
}

const RegionTable& HeapSource::regions() const noexcept { return heap.regions(); }

const Window& HeapSource::window() const noexcept { return heap.window(); }

const PageMarks* HeapSource::marks() const noexcept { return &heap.marks(); }

bool HeapSource::populate(const Region& region, PagesFor who) const noexcept {
  return heap.populator().populate(region, who);
}

bool HeapSource::populate_part(const Region& region, uintptr_t from, uintptr_t to) const noexcept {
  return heap.populator().populate_part(region, from, to);
}

// Shares are of the limit that there is now: the one at start may have been another, or none.
uint64_t HeapSource::pin_limit() const noexcept {
  const uint64_t limit = os::lock_limit().effective();
  if (limit == os::kNoLimit) return limit;
  const Amount headroom = heap.options().amount(OptionId::headroom);
  return os::less(limit, headroom.resolve(heap.budget().memory().total(), limit));
}

ForeignDefaults HeapSource::foreign() const noexcept {
  const Options& options = heap.options();
  ForeignDefaults defaults;
  defaults.leave_pinned = options.on(OptionId::leave_pinned);
  defaults.bytes = options.amount(OptionId::foreign_bytes)
                       .resolve(heap.budget().memory().total(), os::lock_limit().effective());
  defaults.count = static_cast<uint32_t>(options.choice(OptionId::foreign_count));
  defaults.monitor = static_cast<MonitorWish>(options.choice(OptionId::monitor));
  return defaults;
}

void HeapSource::note_registrations(uint64_t domains, uint64_t bytes, uint64_t pinned) noexcept {
  heap.books().note_registrations(domains, bytes, pinned);
}

void HeapSource::call_before_forks(void (*release)(void* context), void* context) noexcept {
  fork_gate.set_release(release, context);
  fork_gate.register_handlers();
}

bool HeapSource::copies_pinned_at_fork() const noexcept { return os::copies_pinned_at_fork(); }

bool HeapSource::warns() const noexcept { return heap.options().on(OptionId::warn); }

}  // namespace rdmalloc
