#include "allocator/pages/huge_pages.h"

#include "allocator/limits/options.h"

namespace rdmalloc {
namespace {

// In a smaller heap what one huge page wastes is too much: 64 MiB on x86-64, 1 GiB where base pages
// have 16 KiB.
constexpr size_t kLeastPages = 32;

// As many in a block that grows by moving: of the last one it may use little.
constexpr size_t kLeastPagesOfBlock = 8;

// Pages sampled, evenly spread over what was handed out, and how many of them must be present.
constexpr size_t kSamples = 64;
constexpr size_t kLeastTouched = 56;

// Bytes ever handed out, at the start of a region and at its end.
struct Used {
  size_t first;
  size_t last;
};
Used used_of(const Region& region) {
  const Region::Range fresh = region.fresh();
  if (fresh.from < region.base || fresh.to < fresh.from || fresh.to > region.end()) return {0, 0};
  return {fresh.from - region.base, region.end() - fresh.to};
}

bool can_tell(const Region& region) {
  return !region.is_empty() && region.page_kind == os::PageKind::kBase &&
         region.kind != RegionKind::kSparse;
}

// Whether the program touches nearly all memory that it is given. Huge pages cannot tell.
bool is_touched_densely(const RegionTable& regions, const PageMarks& marks) {
  size_t all = 0;
  for (size_t i = 0; i < regions.size(); ++i) {
    if (can_tell(regions[i])) all += used_of(regions[i]).first + used_of(regions[i]).last;
  }
  const size_t stride = os::page_ceil(all / kSamples + 1);
  size_t samples = 0;
  size_t touched = 0;
  size_t ahead = 0;  // bytes to the next sample
  const auto look_at = [&](uintptr_t base, size_t length) {
    for (; ahead < length; ahead += stride) {
      if (marks.is_retired(base + ahead, 1)) continue;
      ++samples;
      const void* const page = pointer(base + ahead);
      touched += os::resident_bytes(page, os::page_size()) != 0 ? 1 : 0;
    }
    ahead -= length;
  };
  for (size_t i = 0; i < regions.size(); ++i) {
    const Region& region = regions[i];
    if (!can_tell(region)) continue;
    const Used used = used_of(region);
    look_at(region.base, used.first);
    look_at(region.end() - used.last, used.last);
  }
  return samples != 0 && touched * kSamples >= samples * kLeastTouched;
}

}  // namespace

void HugePages::boot(uint64_t choice) {
  is_auto_ = choice == kHugeAuto;
  if (choice == kHugeThp) chosen_ = os::PageKind::kTransparentHuge;
  if (choice == kHugeHugetlb) chosen_ = os::PageKind::kHugetlb;
  watch_.boot(choice);
  // Where the process is confined later, the kernel no longer tells their size.
  (void)os::page_size_of(chosen_);
}

bool HugePages::is_dense(size_t held, const RegionTable& regions, const PageMarks& marks) {
  if (held != held_then_) was_dense_ = is_touched_densely(regions, marks);
  held_then_ = held;
  return was_dense_;
}

os::PageKind HugePages::kind_for(size_t length, size_t held, bool at_once,
                                 const RegionTable& regions, const PageMarks& marks) {
  if (!is_auto_) return length < os::page_size_of(chosen_) ? os::PageKind::kBase : chosen_;
  const size_t page = os::page_size_of(os::PageKind::kTransparentHuge);
  if (length < page) return os::PageKind::kBase;
  if (watch_.has_gone_back() || !watch_.can_tell()) return os::PageKind::kBase;
  const bool is_large = held + (at_once ? length : 0) >= kLeastPages * page;
  const bool pays = is_large && (at_once || is_dense(held, regions, marks));
  return pays ? os::PageKind::kTransparentHuge : os::PageKind::kBase;
}

os::PageKind HugePages::kind_for_growing(os::PageKind now, size_t size, size_t held, bool at_once,
                                         const RegionTable& regions, const PageMarks& marks) {
  if (watch_.has_gone_back()) return os::PageKind::kBase;
  const size_t least = kLeastPagesOfBlock * os::page_size_of(os::PageKind::kTransparentHuge);
  if (now != os::PageKind::kBase || !is_auto_ || size < least) return now;
  return kind_for(size, held, at_once, regions, marks);
}

}  // namespace rdmalloc
