#include "allocator/pages/populator.h"

#include <algorithm>

#include "allocator/pages/populate.h"

namespace rdmalloc {
namespace {

// Every process uses these pages of the first region, so one call faults them in.
constexpr size_t kPopulatedFirst = size_t{32} << 10;

}  // namespace

bool Populator::is_to_come_at_once(const Region& region) const {
  const uint64_t choice = store_.options.choice(OptionId::populate);
  if (region.kind != RegionKind::kPinned) return false;
  if (choice != kPopulateAuto) return choice == kPopulateNow;
  return store_.observers.any_of(
      [&](const RegionObserver& observer) { return observer.wants_pages(region); });
}

bool Populator::populate(const Region& region, PagesFor who) {
  return populate_in_steps(region, who, store_.marks, store_.budget, huge_pages_.watch());
}

bool Populator::populate_part(const Region& region, uintptr_t from, uintptr_t to) {
  return populate_at_once(region, from, to, store_.marks, store_.budget, huge_pages_.watch());
}

void Populator::make_ready(const Acquired& acquired, size_t wanted) {
  if (acquired.region == nullptr) return;
  const Region& region = *acquired.region;
  if (is_to_come_at_once(region)) {
    (void)populate(region, PagesFor::kLater);
  } else if (region.use == RegionUse::kExtents && store_.regions.size() == 1) {
    populate_beginning(region, std::min(region.length, kPopulatedFirst), huge_pages_.watch());
  } else {
    try_huge_pages(region, acquired.new_from, wanted, store_.marks, huge_pages_.watch());
  }
  store_.observers.for_each([&](RegionObserver& observer) { observer.on_ready(region); });
}

}  // namespace rdmalloc
