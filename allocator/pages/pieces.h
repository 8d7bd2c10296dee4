// Runs of pages that were gathered, in the order in which they are to be moved: a program's block,
// whole huge pages, and the rest.
//
// Runs inside malloc.
#pragma once

#include <cstddef>
#include <cstdint>

#include "allocator/mutex.h"
#include "allocator/pages/depot.h"
#include "allocator/pages/page_mover.h"

namespace rdmalloc {

class Pieces {
 public:
  struct Piece {
    uintptr_t address;
    size_t size;
    Depot* depot;   // from which it was taken; null: a program's block
    bool is_clean;  // never handed out
  };

  constexpr Pieces() = default;
  Pieces(const Pieces&) = delete;
  Pieces& operator=(const Pieces&) = delete;

  size_t count() const REQUIRES(growth_lock) { return count_; }
  size_t bytes() const REQUIRES(growth_lock) { return bytes_; }
  uintptr_t first_address() const REQUIRES(growth_lock) { return pieces_[0].address; }
  bool has_room_for(size_t pieces) const REQUIRES(growth_lock) {
    return count_ + pieces <= kMostPieces;
  }

  void add(const Piece& piece) REQUIRES(growth_lock);
  // In front of what add() adds.
  void add_huge(const Piece& piece) REQUIRES(growth_lock);
  // A block that a program has, as the first piece: its bytes move with its pages.
  void add_block(uintptr_t address, size_t size) REQUIRES(growth_lock);

  // True when at least a quarter of it is resident, judged by a page of each piece. Moving what
  // nobody has touched costs as much, and saves no memory.
  bool are_touched() const REQUIRES(growth_lock);

  // Gives back all but so many bytes in whole pieces, those first that nobody has touched. True if
  // somebody has touched a quarter of what stays.
  bool keep_touched(size_t bytes) REQUIRES(growth_lock);

  // Gives all of it back to its depot.
  void put_back() REQUIRES(growth_lock);

  // Moves the pieces to a region, what was never handed out last. Calls left(region, address,
  // bytes) for the pages that a region lost. Returns how many bytes were moved: if the kernel
  // refused a piece, fewer than bytes(), and the rest is put back.
  template <typename Left>
  size_t move_to(PageMover& mover, const Region& to, Left left) REQUIRES(growth_lock) {
    size_t done = 0;
    put_clean_last();
    mover.begin(to);
    for (; done < count_; ++done) {
      Piece& piece = pieces_[done];
      Region* region = nullptr;
      const size_t moved = mover.move(piece.address, piece.size, &region);
      if (moved != 0) left(region, piece.address, moved);
      piece.address += moved;
      piece.size -= moved;
      if (piece.size != 0) break;
    }
    const size_t moved = mover.end();
    forget(done);
    put_back();
    return moved;
  }

  // Gives the pieces' pages to the kernel, and calls left(region, address, bytes) as move_to()
  // does. Returns how many bytes it gave: what the kernel refused is put back.
  template <typename Left>
  size_t give_up(PageMover& mover, Left left) REQUIRES(growth_lock) {
    size_t given = 0;
    size_t done = 0;
    for (; done < count_; ++done) {
      Region* region = nullptr;
      const Piece& piece = pieces_[done];
      if (!mover.give_up(piece.address, piece.size, &region)) break;
      left(region, piece.address, piece.size);
      given += piece.size;
    }
    forget(done);
    put_back();
    return given;
  }

  // How many bytes at the end of what was moved last read as zero, if all of it was moved.
  size_t clean() const REQUIRES(growth_lock) { return clean_; }

 private:
  static constexpr size_t kMostPieces = 2048;

  template <typename Pred>
  size_t put_first(Pred is_first) REQUIRES(growth_lock);
  void put_clean_last() REQUIRES(growth_lock);
  void put_back_from(size_t first) REQUIRES(growth_lock);
  void forget(size_t count) REQUIRES(growth_lock);

  size_t count_ GUARDED_BY(growth_lock) = 0;
  size_t bytes_ GUARDED_BY(growth_lock) = 0;
  size_t clean_ GUARDED_BY(growth_lock) = 0;        // bytes
  size_t first_small_ GUARDED_BY(growth_lock) = 0;  // the pieces before it must stay in front
  Piece pieces_[kMostPieces] GUARDED_BY(growth_lock) = {};
};

}  // namespace rdmalloc
