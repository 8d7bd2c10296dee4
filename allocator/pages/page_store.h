// What the page heap consists of, and the growth lock, which guards most of it. The classes that
// take, move and give back pages all work on it; what each part guards or needs, it says itself.
//
// Used inside malloc.
#pragma once

#include <atomic>
#include <cstddef>

#include "allocator/limits/budget.h"
#include "allocator/limits/options.h"
#include "allocator/mutex.h"
#include "allocator/pages/block_table.h"
#include "allocator/pages/books.h"
#include "allocator/pages/cpu_caches.h"
#include "allocator/pages/depots.h"
#include "allocator/pages/front_table.h"
#include "allocator/pages/live_bytes.h"
#include "allocator/pages/observers.h"
#include "allocator/pages/page_marks.h"
#include "allocator/pages/pin_pause.h"
#include "allocator/pages/placement.h"
#include "allocator/pages/region_table.h"
#include "allocator/pages/window.h"

namespace rdmalloc {

class PageStore {
 public:
  constexpr PageStore() = default;
  PageStore(const PageStore&) = delete;
  PageStore& operator=(const PageStore&) = delete;

  // Reads options and limits and reserves the window. Called once, before there are threads.
  void boot();

  Mutex& mutex() RETURN_CAPABILITY(growth_lock) { return mutex_; }

  // Makes room in all tables for a region that is about to be published. False: no memory.
  bool make_room(const Region& region) REQUIRES(growth_lock) EXCLUDES(depot_lock) {
    return regions.cover(region) && marks.cover(region) && blocks.cover(region) &&
           front_table.cover(region) && depots.prepare(region);
  }

  CpuCaches caches;  // first: used by most mallocs and frees of blocks, with no offset to add
  Options options;
  Window window;
  RegionTable regions{window};
  PageMarks marks{window, regions};
  BlockTable blocks{window};
  FrontTable front_table{window};
  Budget budget;
  LiveBytes live;
  Books books{budget, live};
  Observers observers;
  Placement placement;
  PinPause pin_pause GUARDED_BY(growth_lock);  // depots ask it through a reference of their own
  std::atomic<bool> forked{false};             // this process is a child of fork

 private:
  Mutex mutex_{Rank::kGrowth};

 public:
  // Last, because small processes touch only its beginning.
  Depots depots{regions, live, pin_pause};
};

}  // namespace rdmalloc
