// A region: a contiguous part of the window that was acquired, placed, pinned and published as a
// whole. Its address and length never change; what it is made of travels with it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "allocator/os/memory.h"

namespace rdmalloc {

enum class RegionKind : uint8_t {
  kPinned,    // populated and locked when acquired; its pages are never purged
  kOverflow,  // beyond the budget: ordinary memory, promises nothing
  kSparse,    // for one large zeroed request: populated as it is touched, purged when freed
};

struct Region {
  uintptr_t base = 0;
  size_t length = 0;
  // Bytes below this address were handed out before; from here on everything still reads as zero.
  // Guarded by the pool lock.
  uintptr_t fresh_from = 0;
  // Exposed regions only: by page, the pages of the live extent that starts there, 0 where none
  // does. Guarded by the pool lock.
  uint32_t* live_pages = nullptr;
  size_t huge_bytes = 0;  // of it, on huge pages: found, not asked for
  uint16_t index = 0;
  int16_t node = 0;  // NUMA node it was placed on
  RegionKind kind = RegionKind::kOverflow;
  os::PageKind page_kind = os::PageKind::kBase;
  bool locked = false;  // by this process: false again in a forked child
  bool sealed = false;
  bool exposed = false;  // holds what was asked for with RDM_EXPOSED, and nothing else

  uintptr_t end() const { return base + length; }
};

}  // namespace rdmalloc
