#include "allocator/pages/pieces.h"

#include <algorithm>
#include <utility>

#include "allocator/pages/touched.h"

namespace rdmalloc {
namespace {

// Pieces of which less was touched stay where they are.
constexpr size_t kShareTouched = 4;

}  // namespace

void Pieces::add(const Piece& piece) {
  pieces_[count_++] = piece;
  bytes_ += piece.size;
}

void Pieces::add_huge(const Piece& piece) {
  add(piece);
  std::swap(pieces_[count_ - 1], pieces_[first_small_++]);
}

void Pieces::add_block(uintptr_t address, size_t size) {
  add({address, size, nullptr, false});
  first_small_ = count_;
}

// What comes first keeps its order. Returns how many bytes that is. The standard stable_partition
// would malloc.
template <typename Pred>
size_t Pieces::put_first(Pred is_first) {
  size_t bytes = 0;
  size_t used = 0;
  for (size_t i = 0; i < count_; ++i) {
    if (!is_first(pieces_[i])) continue;
    bytes += pieces_[i].size;
    std::swap(pieces_[used++], pieces_[i]);
  }
  return bytes;
}

void Pieces::put_clean_last() {
  clean_ = bytes_ - put_first([](const Piece& piece) { return !piece.is_clean; });
}

bool Pieces::are_touched() const {
  size_t touched = 0;
  const size_t enough = bytes_ / kShareTouched;
  for (size_t i = 0; i < count_ && touched < enough; ++i) {
    touched += is_touched(pieces_[i].address, pieces_[i].size) ? pieces_[i].size : 0;
  }
  return touched >= enough;
}

bool Pieces::keep_touched(size_t bytes) {
  const size_t touched =
      put_first([](const Piece& piece) { return is_touched(piece.address, piece.size); });
  size_t kept = 0;
  size_t first = 0;
  while (first < count_ && kept < bytes) kept += pieces_[first++].size;
  put_back_from(first);
  bytes_ = kept;
  return touched >= kept / kShareTouched;
}

void Pieces::put_back_from(size_t first) {
  for (size_t i = first; i < count_; ++i) {
    const Piece& piece = pieces_[i];
    if (piece.depot == nullptr) continue;
    (void)piece.depot->give_back(pointer(piece.address), piece.size);
  }
  count_ = first;
  first_small_ = std::min(first_small_, first);
}

void Pieces::put_back() {
  put_back_from(0);
  bytes_ = 0;
}

void Pieces::forget(size_t count) {
  for (size_t i = count; i < count_; ++i) pieces_[i - count] = pieces_[i];
  count_ -= count;
}

}  // namespace rdmalloc
