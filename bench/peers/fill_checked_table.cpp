// Separate from the lookup: this part is linked to the library; the lookup's shared object is not.
#include <algorithm>

#include "bench/peers/checked_table.h"

namespace rdmalloc::bench {
namespace {

std::vector<rdm_region> all_regions() {
  std::vector<rdm_region> regions;
  rdm_region region{};
  for (size_t i = 0; rdm_region_get(i, &region) == RDM_OK; ++i) regions.push_back(region);
  return regions;
}

uintptr_t number(const void* address) { return reinterpret_cast<uintptr_t>(address); }

// Calls use(mr) for each of the region's registrations. Pages that were moved away have none.
template <typename Use>
void for_each_registration(const rdm_domain* domain, const rdm_region& region, Use use) {
  constexpr size_t kPage = 4096;
  const auto* const end = static_cast<const char*>(region.base) + region.length;
  for (const auto* next = static_cast<const char*>(region.base); next < end;) {
    rdm_mr mr{};
    if (rdm_lookup(domain, next, 1, &mr) != RDM_OK) {
      next += kPage;
      continue;
    }
    use(mr);
    next = static_cast<const char*>(mr.base) + mr.length;
  }
}

}  // namespace

CheckedTable CheckedTable::of(const rdm_domain* domain) {
  CheckedTable table;
  uintptr_t end = 0;
  table.base = UINTPTR_MAX;
  const std::vector<rdm_region> regions = all_regions();
  for (const rdm_region& region : regions) {
    table.base = std::min(table.base, number(region.base));
    end = std::max(end, number(region.base) + region.length);
  }
  table.size = end - table.base;
  table.by_granule.resize((table.size >> kGranuleShift) + 1);
  for (const rdm_region& region : regions) {
    for_each_registration(domain, region, [&](const rdm_mr& mr) {
      const size_t first = (number(mr.base) - table.base) >> kGranuleShift;
      const size_t last = (number(mr.base) - table.base + mr.length - 1) >> kGranuleShift;
      std::fill(table.by_granule.begin() + static_cast<ptrdiff_t>(first),
                table.by_granule.begin() + static_cast<ptrdiff_t>(last) + 1,
                static_cast<uint16_t>(table.entries.size()));
      table.entries.push_back(mr);
    });
  }
  return table;
}

}  // namespace rdmalloc::bench
