#include "allocator/pages/large_blocks.h"

#include "allocator/breakage.h"

namespace rdmalloc {
namespace {

// Moving takes two system calls and makes a region; copying less than this is cheaper.
constexpr size_t kLeastMoved = size_t{1} << 20;

// A block that shrinks by less keeps its pages.
constexpr size_t kShareKept = 8;

}  // namespace

void LargeBlocks::boot() {
  sparse_from_ = store_.budget.resolve(store_.options.amount(OptionId::sparse_from));
  is_malloc_sparse_ = store_.options.choice(OptionId::sparse) == kSparseMalloc;
}

void LargeBlocks::drain(bool patient) {
  store_.caches.drain(patient, [this](CpuCaches::Block block) {
    give_back(block);
    return false;
  });
}

// Gives back what the caches keep until that is enough for the request.
Taken LargeBlocks::drain_for(const Request& request) {
  Taken taken;
  store_.caches.drain(false, [&](CpuCaches::Block block) {
    give_back(block);
    taken = store_.depots.take(request, Depots::Where::kBest);
    return static_cast<bool>(taken);
  });
  return taken;
}

void LargeBlocks::give_back(CpuCaches::Block block) {
  give_back(store_.blocks.address_of(block.page), block.pages * os::page_size());
}

Taken LargeBlocks::get(const Request& request) {
  if (const Taken taken = store_.depots.take(request, Depots::Where::kBest)) return taken;
  // A block of another node would be taken in the end: take it now, without the growth lock.
  if (growth_.policy().is_ample(request.size)) {
    if (const Taken taken = store_.depots.take(request, Depots::Where::kAnyNode)) return taken;
  }
  // Exposed blocks are not cached, and may be smaller than cached ones.
  CpuCaches::Block larger;
  if (request.use == RegionUse::kBlocks) {
    larger = store_.caches.take_larger(request.size / os::page_size());
  }
  if (larger.pages != 0) {
    give_back(larger);
    if (const Taken taken = store_.depots.take(request, Depots::Where::kBest)) return taken;
  }
  if (!growth_.policy().is_tight(request.size, store_.caches.bytes())) {
    if (const Taken taken = drain_for(request)) return taken;
  }
  if (reclaim_ != nullptr) reclaim_(request.size, false);
  if (const Taken taken = growth_.grow(request)) return taken;
  // No more memory may be held: what the caches keep is the last resort.
  drain(true);
  if (reclaim_ != nullptr) reclaim_(request.size, true);
  return growth_.grow(request);
}

void* LargeBlocks::allocate_slowly(size_t size, size_t alignment, bool zero) {
  const size_t pages = size / os::page_size();
  if (alignment > os::page_size()) {
    const CpuCaches::Block block = store_.caches.take_if(
        pages, [&](size_t page) { return store_.blocks.address_of(page) % alignment == 0; });
    if (block.pages != 0) return hand_out(block, pages, zero);
  } else {
    alignment = os::page_size();
    const CpuCaches::Block block = store_.caches.take_elsewhere(
        pages, [&](size_t page) { return lies_here(store_.blocks.address_of(page), pages); });
    if (block.pages != 0) return hand_out(block, pages, zero);
  }
  const bool is_large = sparse_from_ != 0 && size >= sparse_from_;
  const bool is_sparse = is_large && (zero || is_malloc_sparse_);
  Taken taken;
  if (is_sparse) {
    taken = store_.depots.take_sparse(size, alignment);
    if (!taken) taken = growth_.grow_sparse(size, alignment, store_.placement.node_here());
  } else {
    const size_t given = RDM_BROKEN(block_is_short) ? size - os::page_size() : size;
    taken = get({given, alignment, RegionUse::kBlocks, store_.placement.node_here()});
  }
  if (!taken) return nullptr;
  store_.blocks.set(reinterpret_cast<uintptr_t>(taken.address),
                    BlockTable::make(pages, pages, is_sparse ? BlockTable::kApart : 0));
  store_.books.note_live();
  if (zero) memset(taken.address, 0, taken.dirty);
  return taken.address;
}

void* LargeBlocks::allocate_exposed(size_t size, size_t alignment) {
  if (size > kLargest) return nullptr;
  const size_t bytes = os::page_ceil(size);
  if (alignment < os::page_size()) alignment = os::page_size();
  const Taken taken = get({bytes, alignment, RegionUse::kExposed, store_.placement.node_here()});
  if (!taken) return nullptr;
  const size_t pages = bytes / os::page_size();
  store_.blocks.set(reinterpret_cast<uintptr_t>(taken.address),
                    BlockTable::make(pages, pages, BlockTable::kApart | BlockTable::kExposed));
  store_.books.note_live();
  return taken.address;
}

size_t LargeBlocks::size_of(const void* address) const {
  const auto start = reinterpret_cast<uintptr_t>(address);
  if (!is_covered(start)) return 0;
  const BlockTable::Word word = store_.blocks.get(start);
  return (word & BlockTable::kCached) != 0 ? 0 : BlockTable::asked_pages_of(word) * os::page_size();
}

// Asks the kernel once per block, however often a cache takes it and gives it back.
int LargeBlocks::node_of_block(uintptr_t start, size_t pages) {
  const bool has_word = pages > 1;
  int node = has_word ? store_.blocks.node_of(start) : os::kNoNode;
  if (node != os::kNoNode) return node;
  auto* const address = reinterpret_cast<void*>(start);
  node = store_.placement.node_of(*store_.regions.find(address), address, pages * os::page_size());
  if (has_word) store_.blocks.set_node(start, node);
  return node;
}

// Gives back a block that has no owner any more, or the end of one.
void LargeBlocks::give_back(uintptr_t start, size_t size) {
  auto* const address = reinterpret_cast<void*>(start);
  const Region& region = *store_.regions.find(address);
  const size_t pages = size / os::page_size();
  const bool is_on = store_.placement.is_on();
  const int node = is_on ? node_of_block(start, pages) : region.node;
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
  if (is_abandoned || !ok(store_.depots.give(region, node, address, size))) {
    store_.depots.abandon(region, size);
  }
  if (is_sparse) growth_.release_sparse(base);
  store_.books.note_live();
}

// Gives back a block that the program may have made holes in: the remaining runs, one by one.
void LargeBlocks::give_back_apart(uintptr_t start, size_t size) {
  if (!holes_.has(reinterpret_cast<void*>(start), size)) return give_back(start, size);
  holes_.reopen(start, size);
  store_.blocks.set(start, 0);
  store_.marks.for_each_whole(start, start + size,
                              [&](uintptr_t from, uintptr_t to) { give_back(from, to - from); });
}

// Pages that a block keeps beyond its size must be usable when it grows again.
bool LargeBlocks::has_hole_behind(uintptr_t start, size_t wanted, size_t pages) const {
  const uintptr_t end = start + wanted * os::page_size();
  return pages > wanted &&
         holes_.has(reinterpret_cast<void*>(end), (pages - wanted) * os::page_size());
}

bool LargeBlocks::resize(void* address, size_t size) {
  const auto start = reinterpret_cast<uintptr_t>(address);
  if (!is_covered(start) || size > kLargest) return false;
  const BlockTable::Word word = store_.blocks.get(start);
  const size_t pages = BlockTable::pages_of(word);
  if (pages == 0 || (word & BlockTable::kCached) != 0) return false;
  const BlockTable::Word flags = word & (BlockTable::kApart | BlockTable::kExposed);
  const size_t wanted = os::page_ceil(size) / os::page_size();
  if (wanted > pages) {
    const uintptr_t end = start + pages * os::page_size();
    const Region* const region = store_.regions.find(address);
    // Null: the program destroyed all of it.
    if (region == nullptr || end == region->end()) return false;
    const size_t missing = (wanted - pages) * os::page_size();
    if (!store_.depots.take_at(reinterpret_cast<void*>(end), missing)) return false;
    store_.blocks.set(start, BlockTable::make(wanted, wanted, flags));
  } else if (pages - wanted > pages / kShareKept || (flags & BlockTable::kExposed) != 0 ||
             has_hole_behind(start, wanted, pages)) {
    store_.blocks.set(start, BlockTable::make(wanted, wanted, flags));
    if (pages > wanted) {
      give_back_apart(start + wanted * os::page_size(), (pages - wanted) * os::page_size());
    }
  } else {
    store_.blocks.set(start, BlockTable::make(pages, wanted, flags));
  }
  store_.books.note_live();
  return true;
}

void* LargeBlocks::move(void* address, size_t size) {
  const auto start = reinterpret_cast<uintptr_t>(address);
  const BlockTable::Word word = store_.blocks.get(start);
  const size_t old_size = BlockTable::pages_of(word) * os::page_size();
  const size_t wanted = os::page_ceil(size);
  if (old_size < kLeastMoved || wanted <= old_size || size > kLargest) return nullptr;
  // Whatever the program mapped over the block must stay where it is.
  if (holes_.has(address, old_size)) return nullptr;
  const Region& region = *store_.regions.find(address);
  // In a forked child: exposed memory must be pinned, and the parent's block is not pinned here.
  if (region.exposed && !region.locked) return nullptr;
  drain(false);
  const Request request{wanted, os::page_size(), region.use, region.node};
  void* const moved = growth_.move_block(start, old_size, request);
  if (moved == nullptr) return nullptr;
  const size_t pages = wanted / os::page_size();
  const BlockTable::Word flags = word & (BlockTable::kApart | BlockTable::kExposed);
  store_.blocks.set(start, 0);
  store_.blocks.set(reinterpret_cast<uintptr_t>(moved), BlockTable::make(pages, pages, flags));
  store_.books.note_live();
  return moved;
}

}  // namespace rdmalloc
