// Gathering: collects free pages that no single run offers, to be moved under fresh addresses
// (PageMover). The addresses they leave are retired, so no cache, ours or another library's, can
// have an entry for an address whose page changed.
//
// It is bounded by the kernel's mappings, by addresses of the window, and by pieces too small to be
// worth two system calls.
//
// Runs inside malloc; one gathering at a time.
#pragma once

#include <cstddef>
#include <cstdint>

#include "allocator/pages/depot.h"
#include "allocator/pages/mappings.h"
#include "allocator/pages/observers.h"
#include "allocator/pages/pieces.h"
#include "allocator/pages/region_table.h"

namespace rdmalloc {

class Gathering {
 public:
  // What happens to the pieces: their pages are moved, or given to the kernel. The latter needs no
  // mappings, but must not happen while a device has the pages, which would then be held twice.
  enum class Way : uint8_t { kMove, kRenew };

  constexpr Gathering(const RegionTable& regions, const Observers& observers,
                      const Mappings& mappings)
      : regions_(regions), observers_(observers), mappings_(mappings) {}
  Gathering(const Gathering&) = delete;
  Gathering& operator=(const Gathering&) = delete;

  // `is_forced`: at every growth, down to single pages; for tests.
  void boot(bool is_off, bool is_forced);

  // Takes free pages out of the depot, longest runs first, until it has `wanted` bytes or only
  // pieces that are too small are left; `most` bytes at most. All are in one state: locked by this
  // process, or not. Returns how many bytes it took.
  size_t collect(Depot& depot, size_t wanted, size_t most, Way way) REQUIRES(growth_lock);
  // The same, down to single pages, and exactly that much: for when nothing else is available.
  size_t collect_all(Depot& depot, size_t wanted, Way way) REQUIRES(growth_lock);
  // Of a block that a program has. False: sealed, or of a kind that is not moved.
  bool may_move(uintptr_t address, size_t size) const REQUIRES(growth_lock);

  // False: a device may have its pages still, or they stay where they are.
  bool may_give_up(const Region& region) const;

  // What was collected, until it is moved, given up or put back.
  Pieces& pieces() { return pieces_; }
  // What the pieces have in common: kind, use, locked or not.
  Region model() const REQUIRES(growth_lock);

  // Once part of the mappings is in use, each piece consists of several small ones, and moving them
  // costs more than new pages.
  Way best_way() const REQUIRES(growth_lock);

 private:
  size_t least_piece(Way way) const REQUIRES(growth_lock);
  size_t collect_from(Depot& depot, size_t wanted, size_t most, size_t least, Way way)
      REQUIRES(growth_lock);
  bool may_take(const Region& region, Way way) const REQUIRES(growth_lock);
  void add_run(Depot& depot, uintptr_t address, size_t size, const Region& region)
      REQUIRES(growth_lock);
  void add_used(Depot& depot, uintptr_t address, uintptr_t end, bool is_huge) REQUIRES(growth_lock);
  bool has_room_for(size_t pieces, Way way = Way::kMove) const REQUIRES(growth_lock);

  const RegionTable& regions_;
  const Observers& observers_;
  const Mappings& mappings_;
  bool is_off_ = false;
  bool is_forced_ = false;
  Pieces pieces_;
};

}  // namespace rdmalloc
