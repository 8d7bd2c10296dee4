// Decides which regions get all their pages at once, and in which kind of page, and populates them.
//
// Runs inside malloc, or in the thread that registers a region. Populating runs under no lock.
#pragma once

#include <cstddef>
#include <cstdint>

#include "allocator/pages/huge_pages.h"
#include "allocator/pages/page_store.h"
#include "allocator/pages/publisher.h"

namespace rdmalloc {

class Populator {
 public:
  explicit constexpr Populator(PageStore& store) : store_(store) {}
  Populator(const Populator&) = delete;
  Populator& operator=(const Populator&) = delete;

  void boot() { huge_pages_.boot(store_.options.choice(OptionId::huge)); }

  // True when someone wants all of the region's pages as soon as it is ready.
  bool is_to_come_at_once(const Region& region) const;

  // Gets a region ready that was just published, and tells the observers. `wanted`: how many bytes
  // of it the program is about to touch.
  void make_ready(const Acquired& acquired, size_t wanted) EXCLUDES(growth_lock, depot_lock);

  // Populates all of a region's pages that are not there yet, for a caller that is about to
  // register it. False: there is no room for all of them.
  bool populate(const Region& region, PagesFor who) EXCLUDES(growth_lock);
  // The same for a part that a device is about to use, regardless of the rest.
  bool populate_part(const Region& region, uintptr_t from, uintptr_t to) EXCLUDES(growth_lock);

  HugePages& huge_pages() { return huge_pages_; }

 private:
  PageStore& store_;
  HugePages huge_pages_;
};

}  // namespace rdmalloc
