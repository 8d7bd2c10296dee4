// Makes a region from collected pages, and new ones for the rest, under fresh addresses; not yet
// published.
//
// Runs inside malloc.
#pragma once

#include <cstddef>
#include <cstdint>

#include "allocator/pages/gathering.h"
#include "allocator/pages/page_store.h"
#include "allocator/pages/region_maker.h"

namespace rdmalloc {

// What a region for a request would be made of.
struct RegionPlan {
  size_t bytes;       // if new pages are needed; the request and the room at least
  os::PageKind kind;  // of these
  size_t room = 0;    // for a block that moves: what it needs behind it to grow
};

class Assembly {
 public:
  // A program's block, whose pages move with its bytes in them.
  struct Block {
    uintptr_t address;
    size_t size;
  };

  // What was made. No length: nothing happened. Less than was asked for: the kernel refused to move
  // some of it.
  struct Result {
    Region region;
    size_t fresh = 0;    // bytes of new pages, at its end
    size_t charged = 0;  // bytes that are new to the budget
  };

  constexpr Assembly(PageStore& store, Gathering& gathering, PageMover& mover, RegionMaker& maker)
      : store_(store), gathering_(gathering), mover_(mover), maker_(maker) {}
  Assembly(const Assembly&) = delete;
  Assembly& operator=(const Assembly&) = delete;

  // `block`: the first piece, if that is a program's block, which is never lost. Calls
  // left(region, address, bytes) for the pages that a region lost. Afterwards nothing is collected.
  template <typename Left>
  Result build(const Request& request, const RegionPlan& plan, const Block* block, Left left)
      REQUIRES(growth_lock) {
    const size_t collected = gathering_.pieces().bytes();
    Result result{prepare(request, plan, block), 0, 0};
    if (result.region.length == 0) {
      gathering_.pieces().put_back();
      return result;
    }
    result.fresh = result.charged = result.region.length - collected;
    const size_t moved = gathering_.pieces().move_to(mover_, result.region, left);
    finish(&result, moved, collected, block);
    return result;
  }

 private:
  static constexpr size_t kRefused = SIZE_MAX;

  Region prepare(const Request& request, const RegionPlan& plan, const Block* block)
      REQUIRES(growth_lock);
  size_t ask_fresh(const Region& region, const Request& request, const RegionPlan& plan)
      REQUIRES(growth_lock);
  bool lay_out(Region* region, const Request& request, os::PageKind kind, const Block* block)
      REQUIRES(growth_lock);
  void finish(Result* result, size_t moved, size_t collected, const Block* block)
      REQUIRES(growth_lock);
  void mend_block(const Region& region, const Block& block, size_t moved, size_t collected)
      REQUIRES(growth_lock);
  void give_back_addresses(const Region& region) REQUIRES(growth_lock);

  PageStore& store_;
  Gathering& gathering_;
  PageMover& mover_;
  RegionMaker& maker_;
};

}  // namespace rdmalloc
