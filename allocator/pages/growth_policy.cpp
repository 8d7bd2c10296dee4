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
constexpr size_t kEarlyShare = 4;
constexpr size_t kLargestEarlyStep = size_t{4} << 20;
constexpr size_t kShare = 12;
constexpr size_t kShareOfBlocks = 16;
// A heap that memory is given back to holds little to spare: what is missing there is missing
// because of holes, and the next gathering is cheap.
constexpr size_t kShareInChurn = 64;
constexpr size_t kLeastStepInChurn = size_t{4} << 20;

constexpr size_t kFewGranules = 512;

// Not worth gathering: a small fraction of what is wanted, or a few pages.
constexpr size_t kLeastShare = 32;
constexpr size_t kLeastGathered = size_t{64} << 10;
// Many pieces at a time: in a region of just the size that was missing, whatever is freed later
// joins nothing.
constexpr size_t kGatheredAtOnce = size_t{16} << 20;
// How much may lie idle before pages are moved. With almost nothing allowed, every other request
// would have to be pieced together, forever, and moving a page costs as much as a hundred mallocs
// that find a block. In a small heap that may be most of what was acquired last. In a large heap
// less may lie idle for a large request, which costs more to touch.
//
// Once a multiple of the most that was ever live has been moved, the program's order of malloc and
// free keeps leaving such holes: then half of the heap may lie idle. The largest requests, each of
// which makes a region alone, go on, because touching what they get costs far more. Where nobody
// touches it, Patience bounds the time.
struct Tolerance {
  size_t share;          // this part of what is held may lie idle
  size_t moves_of_live;  // this multiple of what was live may be moved
};
constexpr Tolerance kOfSmaller = {16, 6};
constexpr Tolerance kOfLarge = {24, 12};
constexpr Tolerance kOfLargest = {32, SIZE_MAX};
constexpr size_t kLarge = size_t{1} << 20;
constexpr size_t kLargest = size_t{4} << 20;
constexpr const Tolerance& tolerance_of(size_t size) {
  if (size >= kLargest) return kOfLargest;
  return size >= kLarge ? kOfLarge : kOfSmaller;
}
constexpr size_t kSmallHeap = size_t{64} << 20;
constexpr size_t kTolerated = size_t{16} << 20;
constexpr size_t kToleratedInLargeHeap = size_t{8} << 20;
constexpr size_t kShareOfRestless = 2;
// With several nodes: a share of the most that was ever live.
constexpr size_t kShareOfOtherNodes = 8;

// Addresses are used only once. This share of the window is for growing, and more for all but
// blocks that realloc moves, because these can be copied.
constexpr size_t kShareForGrowing = 4;
constexpr size_t kShareOfMovedBlocks = 2;

// Moved memory gets its own region, and each region is one registration in every domain. Above
// the first number blocks are copied again; above the second nothing is gathered.
constexpr size_t kManyRegions = 2048;
constexpr size_t kMostGathered = 3072;

}  // namespace

size_t GrowthPolicy::step(RegionUse use) const {
  const size_t held = this->held(use);
  const size_t share = use == RegionUse::kExtents ? kShare : kShareOfBlocks;
  const size_t least = use == RegionUse::kBlocks ? kFirstStepOfBlocks : kFirstStep;
  // Small regions are not resident before they are touched, but each takes page tables, a page of
  // jemalloc's tree and two system calls.
  const bool is_first_granule = use == RegionUse::kExtents && held < Window::kGranule;
  const size_t early = is_first_granule ? held : std::min(held / kEarlyShare, kLargestEarlyStep);
  size_t step = std::max({early, held / share, least});
  if (held > kSmallHeap && depots_.given() > held / kEarlyShare) {
    step = std::max(held / kShareInChurn, kLeastStepInChurn);
  }
  // If RLIMIT_AS made the window small, regions below a granule would use it up.
  if (window_.granules() < kFewGranules) step = std::max(step, Window::kGranule - os::page_size());
  return os::page_ceil(std::min(step, kLargestStep));
}

// A request as large as the step makes a large enough region by itself. Growth by realloc does not
// leave one behind at each size, because the block moves.
size_t GrowthPolicy::amount(const Request& request) const {
  return std::max(request.size, step(request.use));
}

size_t GrowthPolicy::amount_to_gather(const Request& request, size_t step) const {
  if (request.use == RegionUse::kExtents) return step;
  const bool is_alone = is_forced_ || request.size >= kLargest;
  return is_alone ? request.size : std::max(request.size, kGatheredAtOnce);
}

bool GrowthPolicy::is_tight(size_t size, size_t cached) const {
  if (is_forced_) return false;
  const size_t held = budget_.held();
  const size_t idle = held - depots_.live() + cached;
  const size_t share = held / tolerance_of(size).share;
  if (size < kLargest) {
    return idle < std::max(share, held < kSmallHeap ? kTolerated : kToleratedInLargeHeap);
  }
  const size_t of_small = kTolerated / os::page_size() * kSmallHeap / (held / os::page_size() + 1);
  const size_t tolerated = std::max(share, std::min(kTolerated, of_small));
  return size <= tolerated && idle < tolerated;
}

void GrowthPolicy::note_gathered(const Request& request, size_t bytes) {
  if (request.size < kLargest) gathered_ += bytes;
}

// The holes are the program's: moving pages would not end. Or it would use up the addresses that
// growing needs.
bool GrowthPolicy::is_restless(const Request& request) {
  const size_t held = budget_.held();
  if (window_.left() < held) return true;
  if (held - depots_.live() >= held / kShareOfRestless) return false;
  if (window_.left() < window_.size() / kShareForGrowing) return true;
  return gathered_ / tolerance_of(request.size).moves_of_live > peak_live_ || patience_.is_over();
}

bool GrowthPolicy::is_ample(size_t size) const {
  if (depots_.nodes() == 1) return false;
  const size_t live = depots_.live();
  const size_t peak = std::max(peak_live_.load(std::memory_order_relaxed), live + size);
  const size_t would_be_held = budget_.held() + size;
  return would_be_held > peak + std::max(kTolerated, peak / kShareOfOtherNodes);
}

void GrowthPolicy::note_live() {
  if (depots_.live() > peak_live_) peak_live_ = depots_.live();
}

// jemalloc asks for little and is given a step, whose end it may never use: a step is judged as the
// largest requests are.
size_t GrowthPolicy::judged_size(const Request& request, size_t step) {
  const bool is_step = request.use == RegionUse::kExtents && request.size < step / kEarlyShare;
  return is_step ? std::max(step / kEarlyShare, kLargest) : request.size;
}

bool GrowthPolicy::may_gather(const Request& request, size_t target, size_t regions) {
  if (request.alignment > Window::kGranule || regions >= kMostGathered) return false;
  if (is_forced_) return true;
  if (is_restless(request)) return false;
  return target >= kLeastGathered && !is_tight(judged_size(request, target), 0);
}

// Addresses are used only once: the fewer are left, the more a gathering must bring.
bool GrowthPolicy::is_worth_gathering(size_t missing, size_t free) const {
  const size_t used = window_.size() - window_.left();
  const size_t enough = budget_.held() / 2 / (window_.size() / (used + 1) + 1);
  return is_forced_ || (free >= missing / kLeastShare && free >= enough);
}

bool GrowthPolicy::is_enough(size_t gathered) const {
  return gathered >= (is_forced_ ? 1 : kLeastGathered);
}

bool GrowthPolicy::may_move_block(size_t regions) const {
  return regions < kManyRegions &&
         (is_forced_ || window_.left() > window_.size() / kShareOfMovedBlocks);
}

}  // namespace rdmalloc
