#include "allocator/limits/huge_page_watch.h"

#include "allocator/limits/options.h"
#include "allocator/os/clock.h"

namespace rdmalloc {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

// Older measurements count half.
constexpr size_t kRemembered = 64 * kMiB;

// A huge page takes one fault, or a few when page tables are missing. A base page takes one; where
// the kernel has intermediate page sizes, one fault brings several.
constexpr size_t kMostFaultsOfHuge = 8;
constexpr size_t kMostPagesOfFault = 16;

}  // namespace

void HugePageWatch::boot(uint64_t choice) {
  choice_ = choice;
  is_on_ = choice == kHugeAuto;
  if (is_on_ && os::page_size_of(os::PageKind::kTransparentHuge) > kLargestPage) {
    finding_.store(Finding::kTooLarge, std::memory_order_relaxed);
  }
}

Status HugePageWatch::populate(os::PageKind kind, void* address, size_t bytes) {
  const uint64_t faults = os::page_faults();
  const uint64_t started = os::now_ns();
  const Status done = os::populate(address, bytes);
  const uint64_t ns = os::now_ns() - started;
  if (ok(done)) note(kind, bytes, ns, os::page_faults() - faults);
  return done;
}

void HugePageWatch::note(os::PageKind kind, size_t bytes, uint64_t ns, uint64_t faults) {
  if (!is_on() || faults == 0) return;
  if (kind == os::PageKind::kBase) note_base(bytes, ns, faults);
  if (kind == os::PageKind::kTransparentHuge) note_huge(bytes, ns, faults);
}

void HugePageWatch::note_base(size_t bytes, uint64_t ns, uint64_t faults) {
  // So few faults mean that the pages were there before.
  if (faults * kMostPagesOfFault * os::page_size() < bytes) return;
  const uint64_t rate = ns * kMiB / bytes + 1;
  const uint64_t best = base_ns_.load(std::memory_order_relaxed);
  if (best == 0 || rate < best) base_ns_.store(rate, std::memory_order_relaxed);
}

void HugePageWatch::note_huge(size_t bytes, uint64_t ns, uint64_t faults) {
  const size_t page = os::page_size_of(os::PageKind::kTransparentHuge);
  if (!can_tell() || faults * page < bytes) return;
  if (faults * page > bytes * kMostFaultsOfHuge) {
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
  if (sum < trial()) return;
  const bool is_slower = time / (sum / kMiB) > base_ns_.load(std::memory_order_relaxed);
  finding_.store(is_slower ? Finding::kSlower : Finding::kFaster, std::memory_order_relaxed);
}

const char* HugePageWatch::text() const {
  switch (choice_) {
    case kHugeOff:
      return "off";
    case kHugeThp:
      return "thp";
    case kHugeHugetlb:
      return "hugetlb";
    default:
      break;
  }
  switch (finding()) {
    case Finding::kNone:
      return "auto: not tried yet";
    case Finding::kFaster:
      return "auto: huge pages, where regions are large";
    case Finding::kSlower:
      return "auto: base pages, because huge ones took longer";
    case Finding::kMissing:
      return "auto: base pages, because there are no huge ones";
    case Finding::kTooLarge:
      return "auto: base pages, because huge ones are too large here";
  }
  return "?";
}

}  // namespace rdmalloc
