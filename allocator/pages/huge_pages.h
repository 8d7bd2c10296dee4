// Which regions are asked for in huge pages (RDMALLOC_HUGE).
//
// A huge page comes whole, whichever byte of it is touched. So `auto` asks for them where all pages
// come at once, and otherwise for a heap of some size whose program touched what it was given: not
// in small processes, and not for tables of which little is ever used. And only as long as they pay
// (HugePageWatch).
//
// Runs inside malloc.
#pragma once

#include <cstddef>
#include <cstdint>

#include "allocator/limits/huge_page_watch.h"
#include "allocator/mutex.h"
#include "allocator/pages/page_marks.h"
#include "allocator/pages/region_table.h"

namespace rdmalloc {

class HugePages {
 public:
  constexpr HugePages() = default;
  HugePages(const HugePages&) = delete;
  HugePages& operator=(const HugePages&) = delete;

  // `choice`: the value of the option huge. Called once.
  void boot(uint64_t choice);

  // The kind for a region of that length in a heap that holds `held` bytes. `at_once`: the region
  // is populated as soon as it is ready.
  os::PageKind kind_for(size_t length, size_t held, bool at_once, const RegionTable& regions,
                        const PageMarks& marks) REQUIRES(growth_lock);

  // The kind for the new pages of a block of that size that grows by moving, out of a region of
  // kind `now`. The rest as above.
  os::PageKind kind_for_growing(os::PageKind now, size_t size, size_t held, bool at_once,
                                const RegionTable& regions, const PageMarks& marks)
      REQUIRES(growth_lock);

  // What the user asked for, available or not; base pages with auto.
  os::PageKind chosen() const { return chosen_; }

  HugePageWatch& watch() { return watch_; }
  const HugePageWatch& watch() const { return watch_; }

 private:
  bool is_dense(size_t held, const RegionTable& regions, const PageMarks& marks)
      REQUIRES(growth_lock);

  os::PageKind chosen_ = os::PageKind::kBase;
  bool is_auto_ = false;
  HugePageWatch watch_;
  // The last answer, and what was held then: a heap at its cap is refused often without changing.
  bool was_dense_ GUARDED_BY(growth_lock) = false;
  size_t held_then_ GUARDED_BY(growth_lock) = 0;
};

}  // namespace rdmalloc
