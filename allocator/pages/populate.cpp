#include "allocator/pages/populate.h"

#include <algorithm>

namespace rdmalloc {
namespace {

// Populated by one call, in which the others wait.
constexpr size_t kStep = size_t{16} << 20;
// Huge pages may take ten times as long from one moment to the next.
constexpr size_t kStepOfHuge = size_t{4} << 20;

// So many processes of a control group may read at the same moment how much is left, and each
// populate a step of it.
constexpr size_t kSharers = 16;
constexpr size_t kLeastStep = size_t{256} << 10;
// To look takes as long as to populate some of it.
constexpr size_t kUnchecked = size_t{1} << 20;

void populate(const Region& region, uintptr_t from, uintptr_t to, HugePageWatch& watch) {
  void* const address = reinterpret_cast<void*>(from);
  // What was moved here is there already, in pages of either kind.
  if (watch.is_on() && !region.gathered) {
    (void)watch.populate(region.page_kind, address, to - from);
  } else {
    (void)os::populate(address, to - from);
  }
}

// Calls use(from, to) -> bool for what still has its pages, in parts of step() bytes at most, until
// it returns false.
template <typename Step, typename Use>
bool for_each_part(const Region& region, const PageMarks& marks, Step step, Use use) {
  for (uintptr_t from = region.base; from < region.end();) {
    from = marks.first_kept(from, region.end());
    const size_t unit = step();
    const uintptr_t most = region.end() - from < unit ? region.end() : from + unit;
    const uintptr_t to = marks.first_retired(from, most);
    if (to > from && !use(from, to)) return false;
    from = to;
  }
  return true;
}

// What has not come yet of a region of huge pages is to come in base pages.
void go_back(const Region& region, const PageMarks& marks) {
  if (region.page_kind != os::PageKind::kTransparentHuge) return;
  // All of each mapping, so that none is split.
  const auto whole = [&] { return size_t{1} << 63; };
  (void)for_each_part(region, marks, whole, [](uintptr_t from, uintptr_t to) {
    os::ask_for_base_pages(reinterpret_cast<void*>(from), to - from);
    return true;
  });
}

size_t largest_step(const Region& region, const HugePageWatch& watch) {
  if (region.page_kind != os::PageKind::kTransparentHuge) return kStep;
  return watch.is_on_trial() ? os::kHugePageSize : kStepOfHuge;
}

// What of a step there is room for; nothing: for too little of it.
size_t step_of(size_t largest, const Region& region, PagesFor who, const Budget& budget) {
  if (region.length <= kUnchecked) return largest;
  const uint64_t room = who == PagesFor::kNow ? budget.room_to_populate() : budget.room_ahead();
  const size_t share = room / kSharers;
  if (share >= largest) return largest;
  const bool is_huge = region.page_kind == os::PageKind::kTransparentHuge;
  return os::align_down(share, is_huge ? os::kHugePageSize : kLeastStep);
}

bool is_there(uintptr_t from, uintptr_t to) {
  return os::resident_bytes(reinterpret_cast<void*>(from), to - from) == to - from;
}

}  // namespace

bool populate_in_steps(const Region& region, PagesFor who, const PageMarks& marks,
                       const Budget& budget, HugePageWatch& watch) {
  if (__atomic_exchange_n(&region.populated, true, __ATOMIC_RELAXED)) return true;
  bool is_back = watch.has_gone_back();
  if (is_back) go_back(region, marks);
  bool has_room = true;
  const auto step = [&] {
    const size_t largest = largest_step(region, watch);
    const size_t bytes = step_of(largest, region, who, budget);
    has_room = bytes != 0;
    return has_room ? bytes : largest;
  };
  const bool is_done = for_each_part(region, marks, step, [&](uintptr_t from, uintptr_t to) {
    if (!has_room) return is_there(from, to);
    populate(region, from, to, watch);
    if (is_back || !watch.has_gone_back()) return true;
    is_back = true;
    go_back(region, marks);
    return true;
  });
  if (!is_done) __atomic_store_n(&region.populated, false, __ATOMIC_RELAXED);
  return is_done;
}

void try_huge_pages(const Region& region, size_t wanted, const PageMarks& marks,
                    HugePageWatch& watch) {
  if (region.page_kind != os::PageKind::kTransparentHuge || !watch.is_on()) return;
  const size_t most = std::min(wanted, watch.is_on_trial() ? HugePageWatch::kTrial : 0);
  const size_t bytes = std::max(os::align_down(most, os::kHugePageSize), os::kHugePageSize);
  for (size_t done = 0; done < bytes && !watch.has_gone_back(); done += os::kHugePageSize) {
    populate(region, region.base + done, region.base + done + os::kHugePageSize, watch);
  }
  if (watch.has_gone_back()) go_back(region, marks);
}

}  // namespace rdmalloc
