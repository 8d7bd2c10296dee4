// Blocks: runs of whole pages that a program mallocs, with no part in jemalloc. A block comes from
// this processor's cache, else from a depot, else from growing; it goes back the same way. Exposed
// memory works the same way, from its own regions.
//
// Called outside jemalloc, with no lock held, by any thread. Allocates nothing; waits for the
// growth lock only where no free memory would do.
#pragma once

#include <string.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "allocator/pages/freed_blocks.h"
#include "allocator/pages/growth.h"
#include "allocator/pages/page_store.h"
#include "allocator/pages/program_holes.h"

namespace rdmalloc {

class LargeBlocks {
 public:
  // Smaller ones are jemalloc's, unless they are exposed.
  static constexpr size_t kLargestSmall = size_t{32} << 10;
  static constexpr size_t kLargest = size_t{1} << 43;
  // A block that shrinks by less than this part of its size keeps its pages.
  static constexpr size_t kShareKept = 8;

  constexpr LargeBlocks(PageStore& store, Growth& growth, ProgramHoles& holes)
      : store_(store), growth_(growth), holes_(holes), freed_(store, growth, holes) {}
  LargeBlocks(const LargeBlocks&) = delete;
  LargeBlocks& operator=(const LargeBlocks&) = delete;

  void boot();

  // What else may give pages back before the heap grows, and, `urgent`, before malloc fails.
  using Reclaim = void (*)(size_t wanted, bool urgent);
  void set_reclaim(Reclaim reclaim) { reclaim_ = reclaim; }

  // Sizes are in bytes, and rounded up to whole pages; alignment is a power of two. Null: no
  // memory.
  [[gnu::always_inline]] void* allocate(size_t size, size_t alignment, bool zero) {
    if (size > kLargest) return nullptr;
    const size_t pages = os::page_ceil(size) / os::page_size();
    if (alignment <= os::page_size()) {
      const CpuCaches::Block block = store_.caches.take(pages);
      if (block.pages != 0) [[likely]]
        return hand_out(block, pages, zero);
    }
    return allocate_slowly(pages * os::page_size(), alignment, zero);
  }
  void* allocate_exposed(size_t size, size_t alignment);

  // Bytes of the live block that starts at this address; 0: none does.
  size_t size_of(const void* address) const;

  // False: no live block starts there.
  bool release(void* address) {
    const auto start = reinterpret_cast<uintptr_t>(address);
    if (!is_covered(start)) return false;
    const BlockTable::Word word = store_.blocks.get(start);
    const size_t pages = BlockTable::pages_of(word);
    if (pages == 0 || (word & BlockTable::kCached) != 0) return false;
    if ((word & BlockTable::kApart) != 0) [[unlikely]] {
      freed_.give_back_apart(start, pages * os::page_size());
      return true;
    }
    if (lies_here(start, pages)) {
      store_.blocks.set(start, pages | BlockTable::kCached);
      if (store_.caches.give({store_.blocks.page_of(start), pages})) return true;
    }
    freed_.give_back(start, pages * os::page_size());
    return true;
  }

  // Makes a live block shorter, or longer where it lies. False: nothing changed.
  bool resize(void* address, size_t size);

  // Makes it longer by moving its pages. Null: not possible, nothing happened.
  void* move(void* address, size_t size);
  // Whether that is better than copying so many bytes, if there is room for a copy.
  bool is_worth_moving(size_t size) { return growth_.is_worth_moving(size); }

  // True for an address in the part of the window that has blocks.
  bool is_in_blocks(uintptr_t address) const { return store_.blocks.is_covered(address); }

  constexpr FreedBlocks& freed() { return freed_; }

 private:
  // A cached block becomes a live one, of `pages` pages as its owner sees it.
  void* hand_out(CpuCaches::Block block, size_t pages, bool zero) {
    const uintptr_t start = store_.blocks.address_of(block.page);
    store_.blocks.set(start, BlockTable::make(block.pages, pages));
    auto* const address = pointer(start);
    return zero ? memset(address, 0, pages * os::page_size()) : address;
  }
  void* allocate_slowly(size_t size, size_t alignment, bool zero);
  Taken get(const Request& request);
  Taken get_cached(const Request& request);
  bool has_hole_behind(uintptr_t start, size_t wanted, size_t pages) const;
  bool is_covered(uintptr_t address) const {
    return store_.blocks.is_covered(address) && address % os::page_size() == 0;
  }
  // For a block that is not apart: true when its pages lie on the calling thread's node.
  bool lies_here(uintptr_t start, size_t pages) {
    return !store_.placement.is_on() || freed_.node_of(start, pages) == os::current_node();
  }

  PageStore& store_;
  Growth& growth_;
  ProgramHoles& holes_;
  FreedBlocks freed_;
  Reclaim reclaim_ = nullptr;
  uint64_t sparse_from_ = 0;       // 0: nothing is
  bool is_malloc_sparse_ = false;  // and not calloc alone
};

}  // namespace rdmalloc
