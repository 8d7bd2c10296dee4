#include "allocator/pages/region_maker.h"

#include "allocator/breakage.h"

namespace rdmalloc {
namespace {

void* base_of(const Region& region) { return pointer(region.base); }

// The window space of a region, including the gap behind it.
size_t granules_of(size_t length) {
  return os::align_up(length + os::page_size(), Window::kGranule);
}

}  // namespace

// Makes carved addresses usable and sets where their pages shall lie. False: the kernel refused.
bool RegionMaker::open(Region* region, os::PageKind kind) {
  if (!ok(os::open(base_of(*region), region->length, kind))) return false;
  region->page_kind = kind;
  placement_.place(*region, base_of(*region), region->length);
  return true;
}

// Opens with huge pages if wanted and possible. Hugetlb is used only for what is populated at once:
// a fault beyond the control group's share is a SIGBUS, and a hugetlb page cannot be discarded in
// part.
bool RegionMaker::open_best(Region* region, os::PageKind wanted) {
  if (wanted == os::PageKind::kHugetlb && region->kind == RegionKind::kPinned &&
      region->length % os::page_size_of(wanted) == 0 && open(region, wanted)) {
    return true;
  }
  const bool thp =
      wanted == os::PageKind::kTransparentHuge && region->length >= os::page_size_of(wanted);
  return open(region, thp ? wanted : os::PageKind::kBase);
}

// Locks the region. If that fails it becomes overflow, where allowed; otherwise the range is closed
// again and the answer is false.
bool RegionMaker::pin(Region* region, bool may_overflow) {
  void* address = base_of(*region);
  if (region->page_kind == os::PageKind::kHugetlb) {
    region->populated = ok(os::populate(address, region->length));
    // The hugetlb pool promised pages, but a control group or another process took them.
    if (!region->populated) {
      os::close(address, region->length);
      if (!open(region, os::PageKind::kBase)) return false;
    }
  }
  const Status done = RDM_BROKEN(pin_is_skipped)
                          ? Status::kOk
                          : os::lock_opened(address, region->length, region->page_kind);
  region->locked = ok(done);
  if (region->locked) return true;
  if (!may_overflow) {
    os::close(address, region->length);
    return false;
  }
  budget_.note_refusal(region->length);
  os::unlock(address, region->length);  // a failed lock may still hold part of the range
  region->kind = RegionKind::kOverflow;
  return true;
}

bool RegionMaker::extend(Region* region, size_t offset, os::PageKind kind) {
  if (offset == region->length) return true;
  void* const address = pointer(region->base + offset);
  const size_t bytes = region->length - offset;
  const bool thp = kind == os::PageKind::kTransparentHuge && bytes >= os::page_size_of(kind);
  const os::PageKind opened = thp ? kind : os::PageKind::kBase;
  if (!ok(os::open(address, bytes, opened))) return false;
  placement_.place(*region, address, bytes);
  if (!region->locked || ok(os::lock_opened(address, bytes, opened))) {
    if (thp) region->page_kind = kind;
    return true;
  }
  os::close(address, bytes);
  return false;
}

void* RegionMaker::carve(RegionUse use, size_t bytes, size_t alignment) {
  return window_.carve(bytes, alignment < Window::kGranule ? Window::kGranule : alignment,
                       use == RegionUse::kExtents ? Window::End::kLow : Window::End::kHigh);
}

// Reuses the addresses of an earlier sparse region, if they fit this one and the gap behind it.
void* RegionMaker::find_addresses(const RegionOrder& order) {
  if (order.kind == RegionKind::kSparse && order.alignment <= Window::kGranule) {
    void* const address = sparse_addresses_.take(granules_of(order.length), os::page_size());
    if (address != nullptr) return address;
  }
  return carve(order.use, order.length, order.alignment);
}

void RegionMaker::reuse_addresses(const Region& region) {
  (void)sparse_addresses_.give(base_of(region), granules_of(region.length));
}

Region RegionMaker::make(const RegionOrder& order) {
  void* address = find_addresses(order);
  if (address == nullptr) return {};
  Region region;
  region.base = reinterpret_cast<uintptr_t>(address);
  region.length = order.length;
  region.fresh_from = region.base;
  region.fresh_to = region.end();
  region.kind = order.kind;
  region.node = static_cast<int16_t>(order.node);
  region.use = order.use;
  region.by_touch = placement_.is_by_touch(order.use);
  region.exposed = order.use == RegionUse::kExposed;
  if (open_best(&region, order.page_kind) &&
      (order.kind != RegionKind::kPinned || pin(&region, order.may_overflow))) {
    return region;
  }
  give_back_addresses(region);
  return {};
}

void RegionMaker::give_back_addresses(const Region& region) {
  if (region.kind == RegionKind::kSparse) return reuse_addresses(region);
  window_.give_back(base_of(region), region.length);
}

void RegionMaker::finish(Region* region) {
  if (options_.on(OptionId::seal)) region->sealed = ok(os::seal(base_of(*region), region->length));
}

void RegionMaker::undo(const Region& region) {
  os::close(base_of(region), region.length);
  give_back_addresses(region);
}

}  // namespace rdmalloc
