#include "allocator/pages/new_regions.h"

#include <algorithm>

#include "allocator/os/clock.h"

namespace rdmalloc {

// Zero length: no region was made, and nothing happened.
Region NewRegions::make(Grant grant, const Request& request, os::PageKind kind) {
  if (!publisher_.has_slot()) return {};
  const bool is_exposed = request.use == RegionUse::kExposed;
  const bool may_overflow = !store_.options.on(OptionId::strict) && !is_exposed && !request.pinned;
  const size_t page = os::page_size_of(kind);
  if (kind == os::PageKind::kHugetlb && os::align_down(grant.bytes, page) >= request.size) {
    grant.bytes = os::align_down(grant.bytes, page);
  }
  RegionOrder order;
  order.kind = grant.kind;
  order.use = request.use;
  order.length = grant.bytes;
  const bool is_wide = page > Window::kGranule && grant.bytes >= page;
  order.alignment = is_wide ? std::max(request.alignment, page) : request.alignment;
  order.node = request.node;
  order.page_kind = kind;
  order.may_overflow = may_overflow && grant.bytes == request.size;
  const Region region = maker_.make(order);
  if (region.length != 0 || (grant.bytes == request.size && !is_wide)) return region;
  // The window, the kernel or a limit may have refused only the surplus, or the alignment.
  order.length = request.size;
  order.alignment = request.alignment;
  if (is_wide) order.page_kind = os::PageKind::kBase;
  order.may_overflow = may_overflow;
  return maker_.make(order);
}

Acquired NewRegions::acquire(Grant grant, const Request& request, os::PageKind kind) {
  const uint64_t started = os::now_ns();
  Region region = make(grant, request, kind);
  if (region.length == 0) {
    warnings_.warn_of_window(request.size);
    return {};
  }
  if (!store_.make_room(region)) {
    maker_.undo(region);
    return {};
  }
  maker_.finish(&region);
  const Acquired acquired = publisher_.publish(region, region.length, request);
  mover_.mappings().note_region(region, region.length);
  store_.books.note_acquiring(os::now_ns() - started);
  if (region.kind == RegionKind::kOverflow) warnings_.warn_of_overflow();
  return acquired;
}

}  // namespace rdmalloc
