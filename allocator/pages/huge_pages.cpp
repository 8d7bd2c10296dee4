#include "allocator/pages/huge_pages.h"

#include "allocator/options.h"

namespace rdmalloc {
namespace {

// A heap below this is a small process's.
constexpr size_t kLeastHeld = size_t{64} << 20;

// Of so many pages, evenly spread over what was handed out, so many must be there.
constexpr size_t kSamples = 64;
constexpr size_t kLeastTouched = 56;

// Bytes that were ever handed out, at the start of a region.
size_t used_of(const Region& region) {
  const uintptr_t fresh = __atomic_load_n(&region.fresh_from, __ATOMIC_RELAXED);
  return fresh < region.base ? 0 : fresh - region.base;
}

bool can_tell(const Region& region) {
  return !region.is_empty() && region.page_kind == os::PageKind::kBase &&
         region.kind != RegionKind::kSparse;
}

// Whether the program touches nearly all that it is given. What came in huge pages does not tell.
bool is_touched_densely(const RegionTable& regions, const PageMarks& marks) {
  size_t used = 0;
  for (size_t i = 0; i < regions.size(); ++i)
    used += can_tell(regions[i]) ? used_of(regions[i]) : 0;
  const size_t stride = os::page_ceil(used / kSamples + 1);
  size_t samples = 0;
  size_t touched = 0;
  size_t ahead = 0;  // from the start of a region to its next sample
  for (size_t i = 0; i < regions.size(); ++i) {
    const Region& region = regions[i];
    const size_t length = can_tell(region) ? used_of(region) : 0;
    for (; ahead < length; ahead += stride) {
      const uintptr_t page = region.base + ahead;
      if (marks.is_retired(page, 1)) continue;
      ++samples;
      const void* const address = reinterpret_cast<const void*>(page);
      touched += os::resident_bytes(address, os::kPageSize) != 0 ? 1 : 0;
    }
    ahead -= length;
  }
  return samples != 0 && touched * kSamples >= samples * kLeastTouched;
}

}  // namespace

void HugePages::boot(uint64_t choice) {
  is_auto_ = choice == kHugeAuto;
  if (choice == kHugeThp) chosen_ = os::PageKind::kTransparentHuge;
  if (choice == kHugeHugetlb) chosen_ = os::PageKind::kHugetlb;
  watch_.boot(choice);
}

os::PageKind HugePages::kind_for(size_t length, size_t held, bool at_once,
                                 const RegionTable& regions, const PageMarks& marks) const {
  if (length < os::kHugePageSize) return os::PageKind::kBase;
  if (!is_auto_) return chosen_;
  if (watch_.has_gone_back() || !watch_.can_tell()) return os::PageKind::kBase;
  const bool is_large = held + (at_once ? length : 0) >= kLeastHeld;
  const bool pays = is_large && (at_once || is_touched_densely(regions, marks));
  return pays ? os::PageKind::kTransparentHuge : os::PageKind::kBase;
}

}  // namespace rdmalloc
