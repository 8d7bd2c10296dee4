#include "allocator/pages/gathering_policy.h"

#include <algorithm>

#include "allocator/pages/growth_policy.h"

namespace rdmalloc {
namespace {

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
// free keeps leaving such holes: then an eighth of the heap may lie idle. The largest requests,
// each of which makes a region alone, go on, because touching what they get costs far more.
// Patience bounds the time until half of the heap lies idle: an eighth of all else that the process
// does, and for the largest as much as that.
struct Tolerance {
  size_t share;          // this part of what is held may lie idle
  size_t moves_of_live;  // this multiple of what was live may be moved
};
constexpr Tolerance kOfSmaller = {20, 6};
constexpr Tolerance kOfLarge = {24, 12};
constexpr Tolerance kOfLargest = {32, SIZE_MAX};
constexpr size_t kLarge = size_t{1} << 20;
constexpr size_t kLargest = size_t{4} << 20;
constexpr const Tolerance& tolerance_of(size_t size) {
  if (size >= kLargest) return kOfLargest;
  return size >= kLarge ? kOfLarge : kOfSmaller;
}
constexpr size_t kSmallHeap = GrowthPolicy::kSmallHeap;
constexpr size_t kTolerated = size_t{16} << 20;
constexpr size_t kToleratedInLargeHeap = size_t{5} << 20;
constexpr size_t kToleratedForLargest = size_t{12} << 20;  // in a heap of kSmallHeap
constexpr size_t kShareOfRestless = 6;
constexpr size_t kShareOfSparing = 8;
constexpr size_t kShareUntouched = 2;
// All but this share of it may lie in caches where threads wait for each other at the depot: each
// step there takes a dozen cache lines from another processor, and of 16 that reach it for one
// pair in a hundred most would only wait (bench/README.md, "Sixteen processors").
constexpr uint64_t kWaitsOfContended = 64;
constexpr size_t kShareLeftToContended = 8;
constexpr size_t kShareOfWindow = 16;
// Moving a block takes some system calls and makes a region: copying less costs no more. A small
// heap lets the pages lie idle that a copied block leaves, so it moves smaller ones, too. Patience
// bounds the time for all but the largest: a program that grows blocks over and over gets what
// others have left. In a small heap it is short, because there is little to save.
constexpr size_t kLeastBlock = size_t{1} << 20;
constexpr size_t kLeastBlockOfSmallHeap = size_t{256} << 10;
// With several nodes: a share of the most that was ever live.
constexpr size_t kShareOfOtherNodes = 8;

// Moved memory gets its own region, and each region is one registration in every domain. Above
// the first number blocks are copied again; above the second nothing is gathered.
constexpr size_t kManyRegions = 2048;
constexpr size_t kMostGathered = 3072;

// Addresses are used only once. This share of the window is for growing, if it is not more than
// this multiple of the memory. The others are for moving, but one in so many is not for gathering
// little at a time, and a share of the window not for blocks that realloc moves, because these can
// be copied.
constexpr size_t kShareForGrowing = 4;
constexpr size_t kMemoriesForGrowing = 16;
constexpr size_t kShareForMuch = 2;
constexpr size_t kShareNotForBlocks = 2;
constexpr size_t kMemoriesSoon = 64;
constexpr size_t kShareSoon = 16;

}  // namespace

size_t GatheringPolicy::idle_of(size_t held) const {
  return os::less(held, store_.live.all() + store_.live.spare());
}

size_t GatheringPolicy::for_growing() const {
  return std::min<size_t>(store_.window.size() / kShareForGrowing,
                          kMemoriesForGrowing * store_.budget.memory().total());
}

size_t GatheringPolicy::left_to_move_to() const {
  const size_t left = store_.window.left();
  return left - std::min(left, for_growing());
}

size_t GatheringPolicy::scarce() const {
  return (store_.window.size() - for_growing()) / kShareForMuch;
}

size_t GatheringPolicy::amount_to_gather(const Request& request, size_t step) const {
  if (request.use == RegionUse::kExtents) return step;
  const bool is_alone = is_forced_ || request.size >= kLargest;
  return is_alone ? request.size : std::max(request.size, kGatheredAtOnce);
}

// A heap that holds more than it should, because now and then less was collected than was missing,
// has less each time.
size_t GatheringPolicy::amount_to_renew(const Request& request, size_t given) const {
  const size_t held = store_.budget.charges().held() + given;
  const size_t idle = idle_of(held);
  const size_t spare = idle < held / kShareOfRestless ? 0 : idle - held / kShareOfSparing;
  return std::max(request.size, os::page_ceil(given - std::min(spare, given / 2)));
}

bool GatheringPolicy::is_tight(size_t size, size_t cached) const {
  if (is_forced_) return false;
  const size_t held = store_.budget.charges().held();
  const size_t idle = idle_of(held) + cached;
  const size_t share = held / tolerance_of(size).share;
  if (size < kLargest) {
    return idle < std::max(share, held < kSmallHeap ? kTolerated : kToleratedInLargeHeap);
  }
  const size_t of_small =
      kToleratedForLargest / os::page_size() * kSmallHeap / (held / os::page_size() + 1);
  const size_t tolerated = std::max(share, std::min(kTolerated, of_small));
  return size <= tolerated && idle < tolerated;
}

void GatheringPolicy::note_gathered(const Request& request, size_t bytes) {
  if (request.size < kLargest) gathered_ += bytes;
}

// The holes are the program's: moving pages would not end. Or it would use up the addresses that
// growing needs.
bool GatheringPolicy::is_restless(const Request& request) {
  const size_t held = store_.budget.charges().held();
  if (store_.window.left() < held) return true;
  if (may_move_untouched()) return false;
  if (left_to_move_to() == 0) return true;
  if (patience_for(request).is_over()) return true;
  const size_t idle = idle_of(held);
  return idle < held / kShareOfSparing &&
         gathered_ / tolerance_of(request.size).moves_of_live > peak_live_;
}

// Touching what the largest requests get costs far more than moving.
Patience& GatheringPolicy::patience_for(const Request& request) {
  return request.size >= kLargest ? patience_for_largest_ : patience_;
}

bool GatheringPolicy::is_ample(size_t size) const {
  if (store_.depots.nodes() == 1) return false;
  const size_t live = store_.live.all();
  const size_t peak = std::max(peak_live_.load(std::memory_order_relaxed), live + size);
  const size_t would_be_held = store_.budget.charges().held() - store_.live.spare() + size;
  return would_be_held > peak + std::max(kTolerated, peak / kShareOfOtherNodes);
}

void GatheringPolicy::note_live() {
  if (store_.live.all() > peak_live_) peak_live_ = store_.live.all();
}

// jemalloc asks for little and is given a step, whose end it may never use: a step is judged as the
// largest requests are.
size_t GatheringPolicy::judged_size(const Request& request, size_t step) {
  const bool is_step =
      request.use == RegionUse::kExtents && request.size < step / GrowthPolicy::kEarlyShare;
  return is_step ? std::max(step / GrowthPolicy::kEarlyShare, kLargest) : request.size;
}

bool GatheringPolicy::may_gather(const Request& request, size_t target, size_t regions) {
  if (request.alignment > Window::kGranule || regions >= kMostGathered) return false;
  if (is_forced_) return true;
  if (is_restless(request)) return false;
  return target >= kLeastGathered && !is_tight(judged_size(request, target), 0);
}

// The more addresses the program has used, and the fewer are left, the more a gathering must bring:
// at first a small part of the heap, soon a sixteenth, and with the last addresses a quarter.
bool GatheringPolicy::is_worth_gathering(size_t missing, size_t free) const {
  const size_t held = store_.budget.charges().held();
  const size_t used = store_.window.size() - store_.window.left();
  const size_t soon =
      std::min<size_t>(store_.window.size(), kMemoriesSoon * store_.budget.memory().total());
  const size_t last = scarce() - std::min(scarce(), left_to_move_to());
  const size_t enough = std::max(std::min(held / kShareSoon, held / 2 / (soon / (used + 1) + 1)),
                                 held / 2 / (scarce() / (last + 1) + 1));
  return is_forced_ || (free >= missing / kLeastShare && free >= enough);
}

bool GatheringPolicy::may_move_untouched() const {
  const size_t held = store_.budget.charges().held();
  return is_forced_ || idle_of(held) >= held / kShareUntouched;
}

// They take no memory, only addresses and a part of what the limits allow, of which half stays for
// what is used. But a program that begins to use its blocks may then touch all of it.
bool GatheringPolicy::may_keep_untouched(const Request& request, size_t cached) const {
  const size_t held = store_.budget.charges().held();
  const size_t idle = idle_of(held) + cached;
  const uint64_t left =
      std::min({store_.budget.pin_limit().left(), os::less(store_.budget.memory().cap(), held),
                uint64_t{store_.window.size() / kShareOfWindow}});
  const bool is_contended = store_.depots.waits(request) >= kWaitsOfContended;
  const size_t most = is_contended ? held - held / kShareLeftToContended : held / kShareUntouched;
  return !is_forced_ && idle < std::min<uint64_t>(most, left / kShareUntouched);
}

bool GatheringPolicy::is_enough(size_t gathered) const {
  return gathered >= (is_forced_ ? 1 : kLeastGathered);
}

bool GatheringPolicy::is_small() const { return store_.budget.charges().held() < kSmallHeap; }

size_t GatheringPolicy::least_block() const {
  return is_small() ? kLeastBlockOfSmallHeap : kLeastBlock;
}

bool GatheringPolicy::has_time_to_move(size_t size) {
  return is_forced_ || size >= kLargest || !for_blocks().is_over();
}

bool GatheringPolicy::may_move_block(size_t regions) const {
  return regions < kManyRegions &&
         (is_forced_ || store_.window.left() > store_.window.size() / kShareNotForBlocks);
}

void GatheringPolicy::note_moving(size_t size, uint64_t ns) {
  if (size < kLargest) for_blocks().spend(ns);
}

}  // namespace rdmalloc
