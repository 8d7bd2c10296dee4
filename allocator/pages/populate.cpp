#include "allocator/pages/populate.h"

#include <algorithm>

namespace rdmalloc {
namespace {

// Populated by one call, in which whoever maps or unmaps memory waits: on a busy host a MiB may
// take some ms.
constexpr size_t kStep = os::kHugePageSize;

void populate(const Region& region, uintptr_t from, uintptr_t to, HugePageWatch& watch) {
  void* const address = reinterpret_cast<void*>(from);
  // What was moved here is there already, in pages of either kind.
  if (watch.is_on() && !region.gathered) {
    (void)watch.populate(region.page_kind, address, to - from);
  } else {
    (void)os::populate(address, to - from);
  }
}

// Calls use(from, to) for what still has its pages, in parts of `unit` bytes at most.
template <typename Use>
void for_each_part(const Region& region, const PageMarks& marks, size_t unit, Use use) {
  for (uintptr_t from = region.base; from < region.end();) {
    from = marks.first_kept(from, region.end());
    const uintptr_t most = region.end() - from < unit ? region.end() : from + unit;
    const uintptr_t to = marks.first_retired(from, most);
    if (to > from) use(from, to);
    from = to;
  }
}

// What has not come yet of a region of huge pages is to come in base pages.
void go_back(const Region& region, const PageMarks& marks) {
  if (region.page_kind != os::PageKind::kTransparentHuge) return;
  // All of each mapping, so that none is split.
  constexpr size_t kWhole = size_t{1} << 63;
  for_each_part(region, marks, kWhole, [](uintptr_t from, uintptr_t to) {
    os::ask_for_base_pages(reinterpret_cast<void*>(from), to - from);
  });
}

}  // namespace

void populate_in_steps(const Region& region, const PageMarks& marks, HugePageWatch& watch) {
  if (__atomic_exchange_n(&region.populated, true, __ATOMIC_RELAXED)) return;
  bool is_back = watch.has_gone_back();
  if (is_back) go_back(region, marks);
  for_each_part(region, marks, kStep, [&](uintptr_t from, uintptr_t to) {
    populate(region, from, to, watch);
    if (is_back || !watch.has_gone_back()) return;
    is_back = true;
    go_back(region, marks);
  });
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
