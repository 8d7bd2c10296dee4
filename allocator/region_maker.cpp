#include "allocator/region_maker.h"

#include "allocator/os/topology.h"

namespace rdmalloc {
namespace {

void* base_of(const Region& region) { return reinterpret_cast<void*>(region.base); }

}  // namespace

// Makes carved addresses usable and says where their pages shall lie. False: the kernel refused.
bool RegionMaker::open(Region* region, os::PageKind kind) {
  if (!ok(os::open(base_of(*region), region->length, kind))) return false;
  region->page_kind = kind;
  if (several_nodes_) (void)os::prefer_node(base_of(*region), region->length, region->node);
  return true;
}

// With huge pages where asked for and possible. Only what is populated at once may be hugetlb: a
// fault that finds the control group's share used up is a SIGBUS, and such pages are not discarded
// in part.
bool RegionMaker::open_best(Region* region) {
  const uint64_t wanted = options_.choice(OptionId::huge);
  if (wanted == kHugeHugetlb && region->kind == RegionKind::kPinned &&
      region->length % os::kHugePageSize == 0 && open(region, os::PageKind::kHugetlb)) {
    return true;
  }
  const bool thp = wanted == kHugeThp && region->length >= os::kHugePageSize;
  return open(region, thp ? os::PageKind::kTransparentHuge : os::PageKind::kBase);
}

// Populates and locks. What cannot be locked becomes overflow where that may be; else the range is
// closed again, and the answer is false.
bool RegionMaker::pin(Region* region, bool may_overflow) {
  void* address = base_of(*region);
  Status done = os::populate(address, region->length);
  if (!ok(done) && region->page_kind == os::PageKind::kHugetlb) {
    // The pool promised pages that a control group or another process then took.
    os::close(address, region->length);
    if (!open(region, os::PageKind::kBase)) return false;
    done = os::populate(address, region->length);
  }
  if (ok(done)) done = os::lock(address, region->length);
  region->locked = ok(done);
  if (region->locked) return true;
  if (!may_overflow) {
    os::close(address, region->length);
    return false;
  }
  if (done == Status::kOutOfBudget) budget_.note_refusal(region->length);
  os::unlock(address, region->length);  // a lock that failed half-way holds that half
  region->kind = RegionKind::kOverflow;
  return true;
}

Region RegionMaker::make(const RegionOrder& order) {
  const size_t alignment = order.alignment < Window::kGranule ? Window::kGranule : order.alignment;
  void* address = window_.carve(order.length, alignment,
                                order.exposed ? Window::End::kHigh : Window::End::kLow);
  if (address == nullptr) return {};
  Region region;
  region.base = reinterpret_cast<uintptr_t>(address);
  region.length = order.length;
  region.fresh_from = region.base;
  region.kind = order.kind;
  region.node = static_cast<int16_t>(order.node);
  region.exposed = order.exposed;
  if (open_best(&region) &&
      (order.kind != RegionKind::kPinned || pin(&region, order.may_overflow))) {
    return region;
  }
  window_.give_back(address, order.length);
  return {};
}

void RegionMaker::note_huge_pages(Region* region) {
  if (region->page_kind == os::PageKind::kHugetlb) region->huge_bytes = region->length;
  if (region->page_kind != os::PageKind::kTransparentHuge) return;
  region->huge_bytes = os::transparent_huge_bytes(base_of(*region), region->length);
  if (region->huge_bytes < region->length / 2) region->page_kind = os::PageKind::kBase;
}

void RegionMaker::finish(Region* region) {
  note_huge_pages(region);
  if (options_.on(OptionId::seal)) region->sealed = ok(os::seal(base_of(*region), region->length));
}

void RegionMaker::undo(const Region& region) {
  os::close(base_of(region), region.length);
  window_.give_back(base_of(region), region.length);
}

}  // namespace rdmalloc
