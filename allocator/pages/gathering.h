// Gathering: free pages that no single run offers are moved under fresh addresses, one piece behind
// the other, by the kernel's page tables; their bytes, their locks and their place on a NUMA node
// stay. The addresses they leave are retired: reserved for ever, never handed out again. So no
// cache, ours or another library's, can be hit at an address whose page changed.
//
// What bounds it: the kernel's mappings (an eighth of vm.max_map_count), addresses of the window,
// pieces too small to be worth two system calls.
//
// Runs inside malloc; one gathering at a time.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "allocator/pages/depots.h"
#include "allocator/pages/page_marks.h"
#include "allocator/pages/region_table.h"

namespace rdmalloc {

class Gathering {
 public:
  constexpr Gathering(Depots& depots, RegionTable& regions, PageMarks& marks)
      : depots_(depots), regions_(regions), marks_(marks) {}
  Gathering(const Gathering&) = delete;
  Gathering& operator=(const Gathering&) = delete;

  // `is_forced`: at every growth, down to single pages; for tests.
  void boot(bool is_off, bool is_forced);

  // Takes free pages out of the depot, largest runs first, until there are `wanted` bytes or only
  // pieces too small are left; no more than `most`. All of one state: locked by this process, or
  // not. Returns how many.
  size_t collect(Depot& depot, size_t wanted, size_t most) REQUIRES(growth_lock);
  // The same, down to single pages, and exactly as much: when nothing else is to be had.
  size_t collect_all(Depot& depot, size_t wanted) REQUIRES(growth_lock);
  // A block that a program has, as the first piece: its bytes go where its pages go.
  void collect_block(uintptr_t address, size_t size) REQUIRES(growth_lock);
  // False: sealed, or of a kind that is not moved.
  bool may_move(uintptr_t address, size_t size) const REQUIRES(growth_lock);
  // What the pieces have in common: kind, node, locked or not.
  Region model() const REQUIRES(growth_lock);
  size_t collected() const REQUIRES(growth_lock) { return collected_; }

  // Gives all of it back to its depot.
  void put_back() REQUIRES(growth_lock);

  // Moves the pieces to `to`, each behind the one before; calls left(region, bytes) for the region
  // that has lost them by it. Returns how many bytes were moved: less than were collected where
  // the kernel refused one, and then the rest is put back.
  template <typename Left>
  size_t move_to(uintptr_t to, Left left) REQUIRES(growth_lock) {
    uintptr_t end = to;
    size_t done = 0;
    moved_mappings_ = 0;
    lost_locks_ = false;
    const bool unlocks = count_ != 0 && model().locked && !os::moves_locks();
    for (; done < count_; ++done) {
      Piece& piece = pieces_[done];
      announce(piece.address, piece.size);
      const size_t moved = move(piece, end, unlocks);
      recall(piece.address + moved, piece.size - moved);
      end += moved;
      if (moved != 0) left(retire(piece.address, moved), moved);
      piece.address += moved;
      piece.size -= moved;
      if (piece.size != 0) break;
    }
    if (unlocks) lock_again(to, end - to);
    forget(done);
    put_back();
    return end - to;
  }

  // Of what was moved last, some could not be locked again.
  bool lost_locks() const REQUIRES(growth_lock) { return lost_locks_; }

  // A new region, of the pieces that were moved last or of new pages alone. `has_fresh`: of new
  // pages, too.
  void note_region(bool is_gathered, bool has_fresh) REQUIRES(growth_lock) {
    borders_ += 1 + (is_gathered ? moved_mappings_ : 0) + (has_fresh ? 1 : 0);
  }

  size_t gathered_bytes() const { return gathered_.load(std::memory_order_relaxed); }
  size_t retired_bytes() const { return retired_.load(std::memory_order_relaxed); }
  bool is_forced() const { return is_forced_; }

 private:
  struct Piece {
    uintptr_t address;
    size_t size;
    bool is_live;
  };
  static constexpr size_t kMostPieces = 2048;

  size_t least_piece() const REQUIRES(growth_lock);
  size_t collect_from(Depot& depot, size_t wanted, size_t most, size_t least) REQUIRES(growth_lock);
  bool has_room_for(size_t pieces) const REQUIRES(growth_lock);
  size_t most_mappings() const REQUIRES(growth_lock);
  static bool is_movable(const Region& region);
  size_t move(const Piece& piece, uintptr_t to, bool unlocks) REQUIRES(growth_lock);
  size_t move_mapping(uintptr_t from, size_t size, uintptr_t to) REQUIRES(growth_lock);
  void lock_again(uintptr_t address, size_t size) REQUIRES(growth_lock);
  void announce(uintptr_t address, size_t size) REQUIRES(growth_lock);
  void recall(uintptr_t address, size_t size) REQUIRES(growth_lock);
  Region* retire(uintptr_t address, size_t size) REQUIRES(growth_lock);
  void note_borders(const Region& region, uintptr_t from, uintptr_t to) REQUIRES(growth_lock);
  bool is_retired(uintptr_t address) const { return marks_.is_retired(address, 1); }
  void forget(size_t count) REQUIRES(growth_lock);

  Depots& depots_;
  RegionTable& regions_;
  PageMarks& marks_;
  // That regions may take; 0 until it is asked for.
  mutable size_t most_mappings_ GUARDED_BY(growth_lock) = 0;
  // Between mappings of the window's: as many as there are, and 1.
  size_t borders_ GUARDED_BY(growth_lock) = 0;
  bool is_off_ = false;
  bool is_forced_ = false;
  bool lost_locks_ GUARDED_BY(growth_lock) = false;
  size_t moved_mappings_ GUARDED_BY(growth_lock) = 0;
  size_t collected_ GUARDED_BY(growth_lock) = 0;
  size_t count_ GUARDED_BY(growth_lock) = 0;
  Piece pieces_[kMostPieces] GUARDED_BY(growth_lock) = {};
  std::atomic<size_t> gathered_{0};
  std::atomic<size_t> retired_{0};
};

}  // namespace rdmalloc
