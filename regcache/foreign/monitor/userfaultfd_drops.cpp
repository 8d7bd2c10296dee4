#include "regcache/foreign/monitor/userfaultfd_drops.h"

#include "allocator/os/clock.h"

namespace rdmalloc {

// A thread that came through the interposed functions has announced the drop itself, and knows
// better when it is over. Where this monitor announced an earlier drop itself, it goes on
// announcing.
void UserfaultfdDrops::expect(const KernelEvent& event) {
  bool is_ours = false;
  for (Drop& one : drops_) {
    if (one.until == 0 || one.base >= event.end || event.base >= one.end) continue;
    is_ours = true;
    if (one.base > event.base || event.end > one.end) continue;
    one.until = os::now_ns() + kNs;
    return;
  }
  if (!is_ours && changes.announcements().has_any_of(event.base, event.end)) return;
  Drop* place = &drops_[0];
  for (Drop& one : drops_) {
    if (one.until < place->until) place = &one;
  }
  uintptr_t base = event.base;
  uintptr_t end = event.end;
  if (place->until != 0) {
    // No slot is free: one announcement covers both ranges.
    base = place->base < base ? place->base : base;
    end = place->end > end ? place->end : end;
    place->change()->~Change();
    --count_;
  }
  ++count_;
  new (place->storage) Change(reinterpret_cast<void*>(base), end - base);
  place->base = base;
  place->end = end;
  place->until = os::now_ns() + kNs;
}

void UserfaultfdDrops::end_due() {
  if (count_ == 0) return;
  const uint64_t now = os::now_ns();
  for (Drop& one : drops_) {
    if (one.until == 0 || one.until > now) continue;
    one.change()->~Change();
    one.until = 0;
    --count_;
  }
}

}  // namespace rdmalloc
