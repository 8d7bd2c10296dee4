#include "allocator/pages/heap_fork.h"

#include "allocator/breakage.h"
#include "allocator/os/thread.h"

namespace rdmalloc {

void before_fork(Heap& target) {
  PageStore& store = target.store();
  store.mutex().lock();
  store.caches.lock_all();
  store.depots.lock_all();
  store.books.counters().mutex().lock();
}

void after_fork_in_parent(Heap& target) {
  PageStore& store = target.store();
  store.books.counters().mutex().unlock();
  store.depots.unlock_all();
  store.caches.unlock_all();
  store.mutex().unlock();
}

void after_fork_in_child(Heap& target) {
  PageStore& store = target.store();
  store.forked = true;
  os::note_fork_child();
  for (size_t i = 0; i < store.regions.size(); ++i) store.regions[i].locked = false;
  store.budget.note_fork_child();
  store.books.counters().note_fork_child();
  store.observers.for_each([](RegionObserver& observer) REQUIRES(growth_lock) {
    if (!RDM_BROKEN(fork_handler_is_missed)) observer.on_fork_child();
  });
  target.holes().forget_pending();
  store.caches.note_fork_child();
  after_fork_in_parent(target);
  store.depots.abandon_exposed();
}

}  // namespace rdmalloc
