// The heap over fork: takes all of its locks, so that the child finds it in order, and makes the
// child's heap one of its own, in which nothing that was inherited is pinned.
//
// In this order relative to jemalloc's own handlers: see ../fork.cpp. Inside malloc nothing runs
// meanwhile.
#pragma once

#include "allocator/pages/heap.h"

namespace rdmalloc {

void before_fork(Heap& target) ACQUIRE(growth_lock, depot_lock, counters_lock);
void after_fork_in_parent(Heap& target) RELEASE(growth_lock, depot_lock, counters_lock);
void after_fork_in_child(Heap& target) RELEASE(growth_lock, depot_lock, counters_lock);

}  // namespace rdmalloc
