#include "allocator/pages/large_blocks.h"

#include "allocator/breakage.h"

namespace rdmalloc {
void LargeBlocks::boot() {
  sparse_from_ = store_.budget.resolve(store_.options.amount(OptionId::sparse_from));
  is_malloc_sparse_ = store_.options.choice(OptionId::sparse) == kSparseMalloc;
}

Taken LargeBlocks::get(const Request& request) {
  if (const Taken taken = store_.depots.take(request, Depots::Where::kBest)) return taken;
  // A block of another node would be taken in the end: take it now, without the growth lock.
  if (growth_.gathering_policy().is_ample(request.size)) {
    if (const Taken taken = store_.depots.take(request, Depots::Where::kAnyNode)) return taken;
  }
  // Exposed blocks are not cached.
  if (request.use == RegionUse::kBlocks) {
    if (const Taken taken = get_cached(request)) return taken;
  }
  if (reclaim_ != nullptr) reclaim_(request.size, false);
  if (const Taken taken = growth_.grow(request)) return taken;
  // No more memory may be held: what the caches keep is the last resort.
  freed_.drain(true);
  if (reclaim_ != nullptr) reclaim_(request.size, true);
  return growth_.grow(request);
}

// Of cached blocks of other sizes.
Taken LargeBlocks::get_cached(const Request& request) {
  const size_t pages = request.size / os::page_size();
  const size_t cached = store_.caches.bytes_lately();
  const bool keeps_untouched = growth_.gathering_policy().may_keep_untouched(request, cached);
  if (keeps_untouched) {
    const CpuCaches::Block seen = store_.caches.find_larger(pages);
    if (seen.pages != 0 && freed_.is_untouched(seen)) return {};
  }
  const CpuCaches::Block larger = store_.caches.take_larger(pages);
  if (larger.pages != 0) {
    if (const Taken taken = freed_.exchange(larger, request)) return taken;
  }
  if (growth_.gathering_policy().is_tight(request.size, cached)) return {};
  return freed_.drain_for(request, keeps_untouched);
}

void* LargeBlocks::allocate_slowly(size_t size, size_t alignment, bool zero) {
  const size_t pages = size / os::page_size();
  if (alignment > os::page_size()) {
    const CpuCaches::Block block = store_.caches.take_if(
        pages, [&](size_t page) { return store_.blocks.address_of(page) % alignment == 0; });
    if (block.pages != 0) return hand_out(block, pages, zero);
  } else {
    alignment = os::page_size();
    const CpuCaches::Block block = store_.caches.take_shared(
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

// Pages that a block keeps beyond its size must be usable when it grows again.
bool LargeBlocks::has_hole_behind(uintptr_t start, size_t wanted, size_t pages) const {
  const uintptr_t end = start + wanted * os::page_size();
  return pages > wanted && holes_.has(pointer(end), (pages - wanted) * os::page_size());
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
    if (!store_.depots.take_at(pointer(end), missing)) return false;
    store_.blocks.set(start, BlockTable::make(wanted, wanted, flags));
  } else if (pages - wanted > pages / kShareKept || (flags & BlockTable::kExposed) != 0 ||
             has_hole_behind(start, wanted, pages)) {
    store_.blocks.set(start, BlockTable::make(wanted, wanted, flags));
    if (pages > wanted) {
      freed_.give_back_apart(start + wanted * os::page_size(), (pages - wanted) * os::page_size());
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
  if (wanted <= old_size || size > kLargest) return nullptr;
  // Whatever the program mapped over the block must stay where it is.
  if (holes_.has(address, old_size)) return nullptr;
  const Region& region = *store_.regions.find(address);
  // In a forked child: exposed memory must be pinned, and the parent's block is not pinned here.
  if (region.exposed && !region.locked) return nullptr;
  if (!growth_.may_move_block(start, old_size)) return nullptr;
  freed_.drain(false);
  const Request request{wanted, os::page_size(), region.use, region.node};
  void* const moved = growth_.move_block(start, old_size, request);
  if (moved == nullptr) return nullptr;
  const size_t pages = wanted / os::page_size();
  const BlockTable::Word flags = word & (BlockTable::kApart | BlockTable::kExposed);
  // Its word may have been forgotten, and takes no memory then.
  if (store_.blocks.get(start) != 0) store_.blocks.set(start, 0);
  store_.blocks.set(reinterpret_cast<uintptr_t>(moved), BlockTable::make(pages, pages, flags));
  store_.books.note_live();
  return moved;
}

}  // namespace rdmalloc
