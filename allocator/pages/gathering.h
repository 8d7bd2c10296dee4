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
#include "allocator/pages/observers.h"
#include "allocator/pages/page_mover.h"
#include "allocator/pages/region_table.h"

namespace rdmalloc {

class Gathering {
 public:
  // What happens to the pieces: their pages are moved, or given to the kernel. The latter needs no
  // mappings, but must not happen while a device has the pages, which would then be held twice.
  enum class Way : uint8_t { kMove, kRenew };

  constexpr Gathering(const RegionTable& regions, const Observers& observers, PageMover& mover)
      : regions_(regions), observers_(observers), mover_(mover) {}
  Gathering(const Gathering&) = delete;
  Gathering& operator=(const Gathering&) = delete;

  // `is_forced`: at every growth, down to single pages; for tests.
  void boot(bool is_off, bool is_forced);

  // Takes free pages out of the depot, longest runs first, until it has `wanted` bytes or only
  // pieces that are too small are left; `most` bytes at most. All are in one state: locked by this
  // process, or not. Returns how many bytes it took.
  size_t collect(Depot& depot, size_t wanted, size_t most) REQUIRES(growth_lock);
  // The same, down to single pages, and exactly that much: for when nothing else is available.
  size_t collect_all(Depot& depot, size_t wanted, Way way) REQUIRES(growth_lock);
  // Collects a block that a program has, as the first piece: its bytes move with its pages.
  void collect_block(uintptr_t address, size_t size) REQUIRES(growth_lock);
  // False: sealed, or of a kind that is not moved.
  bool may_move(uintptr_t address, size_t size) const REQUIRES(growth_lock);
  // What the pieces have in common: kind, use, locked or not.
  Region model() const REQUIRES(growth_lock);
  size_t collected() const REQUIRES(growth_lock) { return collected_; }

  // How many bytes at the end of what was moved last read as zero, if all of it was moved.
  size_t clean() const REQUIRES(growth_lock) { return clean_; }

  // True when at least a quarter of it is resident, judged by a page of each piece. Moving what
  // nobody has touched costs as much, and saves no memory.
  bool is_touched() const REQUIRES(growth_lock);

  // Gives all of it back to its depot.
  void put_back() REQUIRES(growth_lock);

  // Once part of the mappings is in use, each piece consists of several small ones, and moving them
  // costs more than new pages.
  Way best_way() const REQUIRES(growth_lock);

  // Gives the pieces' pages to the kernel, and calls left(region, bytes) as move_to() does. Returns
  // how many bytes it gave: what the kernel refused is put back.
  template <typename Left>
  size_t give_up(Left left) REQUIRES(growth_lock) {
    size_t given = 0;
    size_t done = 0;
    for (; done < count_; ++done) {
      Region* region = nullptr;
      const Piece& piece = pieces_[done];
      if (!mover_.give_up(piece.address, piece.size, &region)) break;
      left(region, piece.size);
      given += piece.size;
    }
    forget(done);
    put_back();
    return given;
  }

  // Moves the pieces to `to`, whole huge pages first and what was never handed out last. Calls
  // left(region, bytes) for each region that lost pages. Returns how many bytes were moved: if the
  // kernel refused a piece, fewer than were collected, and the rest is put back.
  template <typename Left>
  size_t move_to(uintptr_t to, Left left) REQUIRES(growth_lock) {
    size_t done = 0;
    put_clean_last();
    mover_.begin(to, count_ != 0 && model().locked);
    for (; done < count_; ++done) {
      Piece& piece = pieces_[done];
      Region* region = nullptr;
      const size_t moved = mover_.move(piece.address, piece.size, &region);
      if (moved != 0) left(region, moved);
      piece.address += moved;
      piece.size -= moved;
      if (piece.size != 0) break;
    }
    const size_t moved = mover_.end();
    forget(done);
    put_back();
    return moved;
  }

 private:
  struct Piece {
    uintptr_t address;
    size_t size;
    Depot* depot;   // from which it was taken; null: a program's block
    bool is_clean;  // never handed out
  };
  static constexpr size_t kMostPieces = 2048;

  size_t least_piece() const REQUIRES(growth_lock);
  size_t collect_from(Depot& depot, size_t wanted, size_t most, size_t least, Way way)
      REQUIRES(growth_lock);
  bool may_take(const Region& region, Way way) const REQUIRES(growth_lock);
  void add_run(Depot& depot, uintptr_t address, size_t size, const Region& region)
      REQUIRES(growth_lock);
  void add_used(Depot& depot, uintptr_t address, uintptr_t end, bool is_huge) REQUIRES(growth_lock);
  void put_clean_last() REQUIRES(growth_lock);
  bool has_room_for(size_t pieces, Way way = Way::kMove) const REQUIRES(growth_lock);
  static bool is_movable(const Region& region);
  void forget(size_t count) REQUIRES(growth_lock);

  const RegionTable& regions_;
  const Observers& observers_;
  PageMover& mover_;
  bool is_off_ = false;
  bool is_forced_ = false;
  size_t collected_ GUARDED_BY(growth_lock) = 0;  // bytes
  size_t clean_ GUARDED_BY(growth_lock) = 0;      // bytes
  size_t count_ GUARDED_BY(growth_lock) = 0;
  size_t first_small_ GUARDED_BY(growth_lock) = 0;  // the pieces before it must stay in front
  Piece pieces_[kMostPieces] GUARDED_BY(growth_lock) = {};
};

}  // namespace rdmalloc
