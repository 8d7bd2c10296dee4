#include "allocator/pages/growth_policy.h"

#include <algorithm>

namespace rdmalloc {
namespace {

// The first regions are small, because most processes are: /bin/true needs about 100 KiB.
constexpr size_t kFirstStep = size_t{128} << 10;
constexpr size_t kLargestStep = size_t{1} << 30;
// Pages of blocks are faulted in when touched, so only addresses and budget are held ahead of
// need. Small steps would fragment: free runs of different regions never join.
constexpr size_t kFirstStepOfBlocks = size_t{8} << 20;
// Later steps are a share of what is held. The share is large while little is held, to keep the
// number of regions low, and smaller later, to hold little ahead of need.
constexpr size_t kLargestEarlyStep = size_t{4} << 20;
constexpr size_t kShare = 12;
constexpr size_t kShareOfBlocks = 16;
// A heap that memory is given back to holds little to spare: what is missing there is missing
// because of holes, and the next gathering is cheap.
constexpr size_t kShareInChurn = 64;
constexpr size_t kLeastStepInChurn = size_t{4} << 20;
// That is much in a heap of 100 MiB, but less would fragment one that is mostly blocks.
constexpr size_t kLeastStepOfObjects = size_t{1} << 20;
constexpr size_t kLargeHeap = size_t{128} << 20;

constexpr size_t kFewGranules = 512;

}  // namespace

size_t GrowthPolicy::step(RegionUse use) const {
  const size_t held = publisher_.held(use);
  const size_t share = use == RegionUse::kExtents ? kShare : kShareOfBlocks;
  const size_t least = use == RegionUse::kBlocks ? kFirstStepOfBlocks : kFirstStep;
  // Small regions are not resident before they are touched, but each takes page tables, a page of
  // jemalloc's tree and two system calls.
  const bool is_first_granule = use == RegionUse::kExtents && held < Window::kGranule;
  const size_t early = is_first_granule ? held : std::min(held / kEarlyShare, kLargestEarlyStep);
  size_t step = std::max({early, held / share, least});
  const size_t all = store_.budget.charges().held();
  if (all > kSmallHeap && store_.live.given() > all / kEarlyShare) {
    const bool are_objects = all < kLargeHeap && publisher_.held(RegionUse::kExtents) > all / 2;
    const size_t least_now = are_objects ? kLeastStepOfObjects : kLeastStepInChurn;
    step = std::min(step, std::max(held / kShareInChurn, least_now));
  }
  // If RLIMIT_AS made the window small, regions below a granule would use it up.
  if (store_.window.granules() < kFewGranules)
    step = std::max(step, Window::kGranule - os::page_size());
  return os::page_ceil(std::min(step, kLargestStep));
}

// A request as large as the step makes a large enough region by itself. Growth by realloc does not
// leave one behind at each size, because the block moves.
size_t GrowthPolicy::amount(const Request& request) const {
  return std::max(request.size, step(request.use));
}

}  // namespace rdmalloc
