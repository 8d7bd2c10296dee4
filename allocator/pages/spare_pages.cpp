#include "allocator/pages/spare_pages.h"

#include <algorithm>
#include <span>

namespace rdmalloc {
namespace {

// What a block gets if free pages are at hand that somebody has touched: an eighth of its size up
// to a MiB, and a 32nd if that is more.
constexpr size_t kShareOfSmall = 8;
constexpr size_t kMostOfSmall = size_t{1} << 20;
constexpr size_t kShareOfLarge = 32;
// If new ones are needed, a half, or a quarter where they are populated at once. Touching more than
// the most of them costs far more than a move.
constexpr size_t kShareNew = 2;
constexpr size_t kShareNewAtOnce = 4;
constexpr size_t kMostNew = size_t{256} << 20;

// Giving less to the kernel is not worth a system call.
constexpr size_t kLeastGivenUp = size_t{64} << 10;
// All are looked at once this part of them was freed.
constexpr size_t kShareFreed = 8;
// So many are taken in one look.
constexpr size_t kAtOnce = 64;

}  // namespace

RegionPlan SparePages::plan(const Assembly::Block& block, const Request& request, os::PageKind kind,
                            bool at_once) {
  const size_t size = request.size;
  if (!is_small_step(block.size, size)) return {size, kind};
  const size_t room = std::max(std::min(size / kShareOfSmall, kMostOfSmall), size / kShareOfLarge);
  const size_t more = std::min(size / (at_once ? kShareNewAtOnce : kShareNew), kMostNew);
  return {size + os::page_ceil(std::max(more, room)), kind, os::page_ceil(room)};
}

// Takes the runs for which is_wanted(address) is true, and calls use(depot, address, size) for
// each.
template <typename Pred, typename Use>
void SparePages::take(bool pinned, Pred is_wanted, Use use) {
  uintptr_t found[kAtOnce];
  for (const RegionUse kind : {RegionUse::kBlocks, RegionUse::kExposed}) {
    for (int node = 0; node < (pinned ? store_.depots.nodes() : 1); ++node) {
      Depot& depot = store_.depots.of(kind, node, pinned);
      size_t count = kAtOnce;
      while (count == kAtOnce) {
        count = depot.find_spare(is_wanted, found, kAtOnce);
        for (const uintptr_t address : std::span(found, count)) {
          size_t size = 0;
          // Its block may have grown meanwhile.
          if (depot.take_spare_at(address, &size, store_.live.spare_sum()) == nullptr) continue;
          use(depot, address, size);
        }
      }
    }
  }
}

void SparePages::settle(const Assembly::Block& block) {
  if (store_.live.spare() == 0) return;
  const uintptr_t end = block.address + block.size;
  Depot& depot = store_.depots.of(*store_.regions.find(pointer(block.address)));
  size_t size = 0;
  if (depot.take_spare_at(end, &size, store_.live.spare_sum()) != nullptr) {
    (void)settle_run(depot, end, size);
  }
}

bool SparePages::settle_all(bool pinned) {
  const size_t given = store_.live.given();
  const size_t spare = store_.live.spare();
  if (spare == 0 || given - given_then_[pinned] < spare / kShareFreed) return false;
  given_then_[pinned] = given;
  bool is_any_free = false;
  take(
      pinned, [&](uintptr_t run) { return is_left_over(run); },
      [&](Depot& depot, uintptr_t address, size_t size)
          REQUIRES(growth_lock) { is_any_free |= settle_run(depot, address, size); });
  return is_any_free;
}

void SparePages::release(bool pinned) {
  take(
      pinned, [](uintptr_t) { return true; },
      [&](Depot& depot, uintptr_t address, size_t size) { free_run(depot, address, size); });
}

// They wait for a block as long as it ends where they begin.
bool SparePages::is_left_over(uintptr_t spare) const {
  const uintptr_t block = store_.regions.find(pointer(spare))->base;
  const BlockTable::Word word = store_.blocks.get(block);
  return (word & BlockTable::kCached) != 0 ||
         block + BlockTable::pages_of(word) * os::page_size() != spare;
}

// True: some of it became free.
bool SparePages::settle_run(Depot& depot, uintptr_t address, size_t size) {
  Region* region = store_.regions.find(pointer(address));
  const uintptr_t end = address + size;
  const Region::Range fresh = region->fresh();
  const uintptr_t clean = fresh.to < end ? end : std::clamp(fresh.from, address, end);
  if (end - clean >= kLeastGivenUp && gathering_.may_give_up(*region) &&
      mover_.give_up(clean, end - clean, &region)) {
    publisher_.note_given_up(region, clean, end - clean);
    size = clean - address;
  }
  if (size != 0) free_run(depot, address, size);
  return size != 0;
}

void SparePages::free_run(Depot& depot, uintptr_t address, size_t size) {
  // There may be no memory to record it.
  if (!ok(depot.give_back(pointer(address), size))) store_.live.abandon_free(size);
}

}  // namespace rdmalloc
