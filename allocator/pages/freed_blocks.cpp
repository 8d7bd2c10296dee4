#include "allocator/pages/freed_blocks.h"

#include <string.h>

#include "allocator/breakage.h"
#include "allocator/pages/touched.h"

namespace rdmalloc {

int FreedBlocks::node_of(uintptr_t start, size_t pages) {
  const bool has_word = pages > 1;
  int node = has_word ? store_.blocks.node_of(start) : os::kNoNode;
  if (node != os::kNoNode) return node;
  auto* const address = pointer(start);
  node = store_.placement.node_of(*store_.regions.find(address), address, pages * os::page_size());
  if (has_word) store_.blocks.set_node(start, node);
  return node;
}

// `request`: what to take pages for then, or null.
void FreedBlocks::give_back(uintptr_t start, size_t size, const Request* request, Taken* taken) {
  auto* const address = pointer(start);
  const Region& region = *store_.regions.find(address);
  const size_t pages = size / os::page_size();
  const bool is_on = store_.placement.is_on();
  const int node = is_on ? node_of(start, pages) : region.node;
  if (is_on && pages > 1) store_.blocks.set_node(start, os::kNoNode);
  if (!RDM_BROKEN(freed_block_is_known)) store_.blocks.set(start, 0);
  // madvise does not discard locked pages (mlockall), but free pages of a sparse region must read
  // as zero.
  const bool is_sparse = region.kind == RegionKind::kSparse;
  const uintptr_t base = region.base;
  if (is_sparse) {
    store_.observers.for_each(
        [&](RegionObserver& observer) { observer.on_discard(address, size); });
    if (!ok(os::discard(address, size))) memset(address, 0, size);
  }
  // Abandoned: exposed pages that this process has not pinned, which nobody may use, and pages for
  // which there is no memory to keep a record.
  const bool is_abandoned = region.exposed && !region.locked;
  const auto give = [&] {
    return request == nullptr
               ? store_.depots.give(region, node, address, size)
               : store_.depots.exchange(region, node, address, size, *request, taken);
  };
  if (is_abandoned || !ok(give())) store_.live.abandon(region.use, size);
  if (is_sparse) growth_.release_sparse(base);
  store_.books.note_live();
}

void FreedBlocks::give_back_apart(uintptr_t start, size_t size) {
  if (!holes_.has(pointer(start), size)) return give_back(start, size);
  holes_.reopen(start, size);
  store_.blocks.set(start, 0);
  store_.marks.for_each_whole(start, start + size,
                              [&](uintptr_t from, uintptr_t to) { give_back(from, to - from); });
}

void FreedBlocks::drain(bool patient) {
  store_.caches.drain(patient, [this](CpuCaches::Block block) {
    give_back(block);
    return false;
  });
}

Taken FreedBlocks::exchange(CpuCaches::Block block, const Request& request) {
  Taken taken;
  give_back(store_.blocks.address_of(block.page), block.pages * os::page_size(), &request, &taken);
  return taken;
}

Taken FreedBlocks::drain_for(const Request& request, bool keeps_untouched) {
  Taken taken;
  store_.caches.drain(false, [&](CpuCaches::Block block) {
    const bool is_enough = keeps_untouched && is_untouched(block);
    taken = exchange(block, request);
    return is_enough || taken;
  });
  return taken;
}

bool FreedBlocks::is_untouched(CpuCaches::Block block) {
  constexpr uint32_t kOneOf = 64;
  const uint32_t left = not_to_ask_about_.load(std::memory_order_relaxed);
  if (left != 0) not_to_ask_about_.store(left - 1, std::memory_order_relaxed);
  if (left != 0) return false;
  const bool was_touched = is_touched(store_.blocks.address_of(block.page), os::page_size());
  if (was_touched) not_to_ask_about_.store(kOneOf - 1, std::memory_order_relaxed);
  return !was_touched;
}

}  // namespace rdmalloc
