#include "allocator/pages/populate.h"

#include <algorithm>

namespace rdmalloc {
namespace {

// Populated in one call, during which other threads that map or unmap memory wait; on a busy
// machine a MiB may take milliseconds. Of huge pages, one where that is more.
constexpr size_t kStep = size_t{2} << 20;

// Up to this many processes of a control group may read at the same moment how much is left, and
// each then populates a step.
constexpr size_t kSharers = 16;
constexpr size_t kLeastStep = size_t{256} << 10;
// Reading the limits takes as long as populating a part of this.
constexpr size_t kUnchecked = size_t{1} << 20;
constexpr size_t kLookEvery = size_t{16} << 20;

size_t step_of(const Region& region) {
  const bool is_huge = region.page_kind == os::PageKind::kTransparentHuge;
  return is_huge ? std::max(kStep, os::page_size_of(region.page_kind)) : kStep;
}

void populate(const Region& region, uintptr_t from, uintptr_t to, HugePageWatch& watch) {
  void* const address = pointer(from);
  // Pages that were moved here are already present, whatever their size.
  if (watch.is_on() && !region.gathered) {
    (void)watch.populate(region.page_kind, address, to - from);
  } else {
    (void)os::populate(address, to - from);
  }
}

// Calls use(from, to) -> bool for each part of the range that still has its pages and is writable,
// in parts of at most step() bytes, until it returns false.
template <typename Step, typename Use>
bool for_each_part(uintptr_t base, uintptr_t end, const PageMarks& marks, Step step, Use use) {
  for (uintptr_t from = base; from < end;) {
    from = marks.first_whole(from, end);
    const size_t unit = step();
    const uintptr_t most = end - from < unit ? end : from + unit;
    const uintptr_t to = marks.first_hole(from, most);
    if (to > from && !use(from, to)) return false;
    from = to;
  }
  return true;
}

// Makes the kernel use base pages for the missing pages of a huge-page region.
void go_back(const Region& region, const PageMarks& marks) {
  if (region.page_kind != os::PageKind::kTransparentHuge) return;
  // Whole mappings, so that none is split.
  const auto whole = [] { return size_t{1} << 63; };
  (void)for_each_part(region.base, region.end(), marks, whole, [](uintptr_t from, uintptr_t to) {
    os::ask_for_base_pages(pointer(from), to - from);
    return true;
  });
}

// How many bytes may be populated before looking again. Zero: too little room.
size_t share_of_room(const Region& region, PagesFor who, const Budget& budget) {
  if (region.length <= kUnchecked) return region.length;
  const uint64_t room =
      who == PagesFor::kNow ? budget.memory().room_to_populate() : budget.shared().room_ahead();
  const size_t share = room / kSharers;
  const bool is_huge = region.page_kind == os::PageKind::kTransparentHuge;
  const size_t unit = is_huge ? os::page_size_of(region.page_kind) : kLeastStep;
  return os::align_down(std::min(share, std::max(kLookEvery, unit)), unit);
}

bool is_there(uintptr_t from, uintptr_t to) {
  return os::resident_bytes(pointer(from), to - from) == to - from;
}

}  // namespace

bool populate_in_steps(const Region& region, PagesFor who, const PageMarks& marks,
                       const Budget& budget, HugePageWatch& watch) {
  if (__atomic_exchange_n(&region.populated, true, __ATOMIC_RELAXED)) return true;
  bool is_back = watch.has_gone_back();
  if (is_back) go_back(region, marks);
  size_t share = 0;
  const size_t most = step_of(region);
  const auto step = [&] {
    if (share == 0) share = share_of_room(region, who, budget);
    return share == 0 ? most : std::min(share, most);
  };
  const bool is_done =
      for_each_part(region.base, region.end(), marks, step, [&](uintptr_t from, uintptr_t to) {
        if (share == 0) return is_there(from, to);
        share -= std::min(share, to - from);
        populate(region, from, to, watch);
        if (is_back || !watch.has_gone_back()) return true;
        is_back = true;
        go_back(region, marks);
        return true;
      });
  if (!is_done) __atomic_store_n(&region.populated, false, __ATOMIC_RELAXED);
  return is_done;
}

void populate_beginning(const Region& region, size_t bytes, HugePageWatch& watch) {
  populate(region, region.base, region.base + bytes, watch);
}

bool populate_at_once(const Region& region, uintptr_t from, uintptr_t to, const PageMarks& marks,
                      const Budget& budget, HugePageWatch& watch) {
  if (is_there(from, to)) return true;
  if (budget.memory().room_to_populate() / kSharers < to - from) return false;
  const auto step = [most = step_of(region)] { return most; };
  return for_each_part(from, to, marks, step, [&](uintptr_t low, uintptr_t high) {
    populate(region, low, high, watch);
    return true;
  });
}

void try_huge_pages(const Region& region, uintptr_t new_from, size_t wanted, const PageMarks& marks,
                    HugePageWatch& watch) {
  if (region.page_kind != os::PageKind::kTransparentHuge || !watch.is_on()) return;
  const size_t page = os::page_size_of(region.page_kind);
  const size_t most = std::min(wanted, watch.is_on_trial() ? HugePageWatch::trial() : 0);
  const size_t bytes = std::max(os::align_down(most, page), page);
  const uintptr_t from = os::align_up(new_from, page);
  for (uintptr_t at = from; at < from + bytes && at + page <= region.end(); at += page) {
    if (watch.has_gone_back()) break;
    (void)watch.populate(region.page_kind, pointer(at), page);
  }
  if (watch.has_gone_back()) go_back(region, marks);
}

}  // namespace rdmalloc
