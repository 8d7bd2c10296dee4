#include "allocator/pages/heap.h"

namespace rdmalloc {

constinit Heap heap;

void Heap::boot() {
  if (booted()) return;
  store_.boot();
  populator_.boot();
  growth_.boot();
  blocks_.boot();
  booted_.store(true, std::memory_order_release);
}

void Heap::look_at_limits() {
  Locked hold(store_.mutex());
  store_.budget.look();
  store_.budget.pin_limit().look();
  store_.books.counters().note_budget(store_.budget, store_.regions.count());
}

}  // namespace rdmalloc
