// Where pools get their memory and its keys: from the library itself, or from a test.
#pragma once

#include <cstddef>

#include "allocator/pages/page_marks.h"
#include "allocator/pages/region_observer.h"
#include "allocator/pages/region_table.h"
#include "allocator/pages/window.h"
#include "include/rdmalloc/rdmalloc.h"

namespace rdmalloc {

class PoolMemory {
 public:
  // rdm_alloc, rdm_free, rdm_lookup, rdm_stats_get. Never called under a pool's lock that a fast
  // path may wait for.
  virtual void* allocate(size_t size, size_t alignment, unsigned flags) noexcept = 0;
  virtual void release(void* pointer) noexcept = 0;
  virtual int lookup(rdm_domain* domain, const void* address, size_t length,
                     rdm_mr* out) noexcept = 0;
  virtual rdm_stats stats() noexcept = 0;
  // The domain stays open until it is let go. False: it is not open.
  virtual bool hold(rdm_domain* domain) noexcept = 0;
  virtual void let_go(rdm_domain* domain) noexcept = 0;
  // Only pinned memory is registered there: the device cannot page on demand.
  virtual bool takes_pinned_only(rdm_domain* domain) noexcept = 0;
  // Of regions only exposed ones are registered there.
  virtual bool takes_exposed_only(rdm_domain* domain) noexcept = 0;
  // Why the domain could not register what it was asked to last; may be empty.
  virtual const char* why(rdm_domain* domain) noexcept = 0;

  // Does not change once something was allocated.
  virtual const Window& window() const noexcept = 0;
  // Null: not of the window.
  virtual const Region* region_of(const void* address) const noexcept = 0;

  // What the program did to single pages.
  virtual const PageMarks& marks() const noexcept = 0;
  // Whoever is told when it does: permanently. False: there is no room.
  virtual bool attach(RegionObserver* observer) noexcept = 0;
  // Makes pages of the range accessible again, or retires them. Without locks.
  virtual void reopen(void* address, size_t length) noexcept = 0;

 protected:
  ~PoolMemory() = default;
};

}  // namespace rdmalloc
