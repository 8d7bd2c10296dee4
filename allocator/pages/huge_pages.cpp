#include "allocator/pages/huge_pages.h"

#include "allocator/options.h"

namespace rdmalloc {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

// A heap below this is a small process's.
constexpr size_t kLeastHeld = 64 * kMiB;

// What was measured longer ago counts half.
constexpr size_t kRemembered = 64 * kMiB;

// Of so many pages, evenly spread over what was handed out, so many must be there.
constexpr size_t kSamples = 64;
constexpr size_t kLeastTouched = 56;

// A huge page is one fault, or a few when page tables are missing. A base page is one; several come
// by one fault where the kernel has pages of sizes in between.
constexpr size_t kMostFaultsOfHuge = 8;
constexpr size_t kMostPagesOfFault = 16;

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
  watches_ = choice == kHugeAuto;
  if (choice == kHugeThp) kind_ = os::PageKind::kTransparentHuge;
  if (choice == kHugeHugetlb) kind_ = os::PageKind::kHugetlb;
}

os::PageKind HugePages::kind_for(size_t length, size_t held, bool at_once,
                                 const RegionTable& regions, const PageMarks& marks) const {
  if (length < os::kHugePageSize) return os::PageKind::kBase;
  if (!watches_) return kind_;
  // Without base pages to compare with there is nothing to watch.
  if (has_gone_back() || base_ns_.load(std::memory_order_relaxed) == 0) return os::PageKind::kBase;
  const bool is_large = held + (at_once ? length : 0) >= kLeastHeld;
  const bool pays = is_large && (at_once || is_touched_densely(regions, marks));
  return pays ? os::PageKind::kTransparentHuge : os::PageKind::kBase;
}

void HugePages::note(os::PageKind kind, size_t bytes, uint64_t ns, uint64_t faults) {
  if (!watches_ || faults == 0) return;
  if (kind == os::PageKind::kBase) {
    // Not where pages were there before.
    if (faults * kMostPagesOfFault * os::kPageSize < bytes) return;
    const uint64_t rate = ns * kMiB / bytes + 1;
    const uint64_t best = base_ns_.load(std::memory_order_relaxed);
    if (best == 0 || rate < best) base_ns_.store(rate, std::memory_order_relaxed);
    return;
  }
  if (kind != os::PageKind::kTransparentHuge || faults * os::kHugePageSize < bytes) return;
  if (faults * os::kHugePageSize > bytes * kMostFaultsOfHuge) {
    finding_.store(Finding::kMissing, std::memory_order_relaxed);
    return;
  }
  size_t sum = bytes_.load(std::memory_order_relaxed);
  uint64_t time = ns_.load(std::memory_order_relaxed);
  if (sum >= kRemembered) {
    sum /= 2;
    time /= 2;
  }
  sum += bytes;
  time += ns;
  bytes_.store(sum, std::memory_order_relaxed);
  ns_.store(time, std::memory_order_relaxed);
  if (sum < kTrial || has_gone_back()) return;
  const bool is_slower = time / (sum / kMiB) > base_ns_.load(std::memory_order_relaxed);
  finding_.store(is_slower ? Finding::kSlower : Finding::kFaster, std::memory_order_relaxed);
}

const char* HugePages::text() const {
  if (!watches_) {
    constexpr const char* kNames[] = {"off", "thp", "hugetlb"};
    return kNames[static_cast<size_t>(kind_)];
  }
  switch (finding()) {
    case Finding::kNone:
      return "auto: not tried yet";
    case Finding::kFaster:
      return "auto: huge pages, where regions are large";
    case Finding::kSlower:
      return "auto: base pages, because huge ones took longer";
    case Finding::kMissing:
      return "auto: base pages, because huge ones are not to be had";
  }
  return "?";
}

}  // namespace rdmalloc
