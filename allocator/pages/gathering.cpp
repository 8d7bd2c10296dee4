#include "allocator/pages/gathering.h"

#include "allocator/os/limits.h"

namespace rdmalloc {
namespace {

// Moving a piece costs two system calls, faulting in as much as that about four times it.
constexpr size_t kLeastPiece = size_t{64} << 10;
// With mappings running short, only what pays for them: the smallest piece is doubled for each
// quarter of them that is used.
constexpr size_t kShareOfMappings = 8;
// A piece's own, and what it leaves on both sides of it.
constexpr size_t kMappingsOfPiece = 3;

void* pointer(uintptr_t address) { return reinterpret_cast<void*>(address); }

}  // namespace

void Gathering::boot(bool is_off, bool is_forced) {
  is_off_ = is_off;
  is_forced_ = is_forced;
}

// Not at start, because it reads a file, and small processes never gather.
size_t Gathering::most_mappings() const {
  if (most_mappings_ == 0) most_mappings_ = os::most_mappings() / kShareOfMappings + 1;
  return most_mappings_;
}

size_t Gathering::least_piece() const {
  if (is_forced_) return os::kPageSize;
  return kLeastPiece << (4 * borders_ / most_mappings());
}

bool Gathering::has_room_for(size_t pieces) const {
  return !is_off_ && count_ + pieces <= kMostPieces &&
         borders_ + kMappingsOfPiece * (count_ + pieces) < most_mappings();
}

bool Gathering::is_movable(const Region& region) {
  return !region.sealed && region.page_kind != os::PageKind::kHugetlb &&
         region.kind != RegionKind::kSparse;
}

Region Gathering::model() const {
  const Region& first = *regions_.find(pointer(pieces_[0].address));
  Region region;
  region.kind = first.kind;
  region.use = first.use;
  region.exposed = first.exposed;
  region.node = first.node;
  region.locked = first.locked;
  return region;
}

size_t Gathering::collect(Depot& depot, size_t wanted, size_t most) {
  return collect_from(depot, wanted, most, least_piece());
}

size_t Gathering::collect_all(Depot& depot, size_t wanted) {
  return collect_from(depot, wanted, wanted, os::kPageSize);
}

size_t Gathering::collect_from(Depot& depot, size_t wanted, size_t most, size_t least) {
  size_t got = 0;
  while (got < wanted && has_room_for(1)) {
    size_t size = 0;
    void* const address = depot.take_largest(least, most - got, &size);
    if (address == nullptr) break;
    const Region& region = *regions_.find(address);
    if (!is_movable(region) || (count_ != 0 && region.locked != model().locked)) {
      (void)depot.give_back(address, size);  // where it just was: it needs no record
      break;
    }
    pieces_[count_++] = {reinterpret_cast<uintptr_t>(address), size, false};
    got += size;
  }
  collected_ += got;
  return got;
}

bool Gathering::may_move(uintptr_t address, size_t size) const {
  size_t mappings = 1;
  const uintptr_t end = address + size;
  for (uintptr_t at = marks_.first_seam(address + os::kPageSize, end); at < end;
       at = marks_.first_seam(at + os::kPageSize, end)) {
    ++mappings;
  }
  return has_room_for(mappings) && is_movable(*regions_.find(pointer(address)));
}

void Gathering::collect_block(uintptr_t address, size_t size) {
  pieces_[count_++] = {address, size, true};
  collected_ += size;
}

void Gathering::put_back() {
  for (size_t i = 0; i < count_; ++i) {
    const Piece& piece = pieces_[i];
    if (piece.is_live) continue;
    Depot& depot = depots_.of(*regions_.find(pointer(piece.address)));
    (void)depot.give_back(pointer(piece.address), piece.size);
  }
  count_ = 0;
  collected_ = 0;
}

void Gathering::forget(size_t count) {
  for (size_t i = count; i < count_; ++i) pieces_[i - count] = pieces_[i];
  count_ -= count;
}

// Returns how much of it was moved. There may be more mappings than we know of: the program may
// have split them.
size_t Gathering::move_mapping(uintptr_t from, size_t size, uintptr_t to) {
  size_t done = 0;
  for (size_t step = size; done < size;) {
    if (step > size - done) step = size - done;
    const Status moved = os::move(pointer(from + done), step, pointer(to + done));
    if (ok(moved)) {
      marks_.mark_seam(to + done);
      ++moved_mappings_;
      done += step;
    } else if (moved == Status::kNoMemory || step == os::kPageSize) {
      break;
    } else {
      step = os::page_ceil(step / 2);
    }
  }
  return done;
}

// It was locked a moment ago: only a program that locks memory itself in that moment can be in the
// way.
void Gathering::lock_again(uintptr_t address, size_t size) {
  if (size != 0 && !ok(os::lock_on_fault(pointer(address), size))) lost_locks_ = true;
}

size_t Gathering::move(const Piece& piece, uintptr_t to, bool unlocks) {
  if (unlocks) os::unlock(pointer(piece.address), piece.size);
  size_t done = 0;
  while (done < piece.size) {
    const uintptr_t from = piece.address + done;
    const uintptr_t next = marks_.first_seam(from + os::kPageSize, piece.address + piece.size);
    const size_t moved = move_mapping(from, next - from, to + done);
    done += moved;
    if (from + moved != next) break;
  }
  if (unlocks) lock_again(piece.address + done, piece.size - done);
  if (done != 0) os::leave(pointer(piece.address), done);
  return done;
}

// What is retired is one mapping with what is retired or reserved beside it.
void Gathering::note_borders(const Region& region, uintptr_t from, uintptr_t to) {
  const uintptr_t below = from - os::kPageSize;
  const bool kept_below = from != region.base && !is_retired(below);
  const bool kept_above = to != region.end() && !is_retired(to);
  const bool was_border_below =
      !kept_below || marks_.first_seam(from, from + os::kPageSize) == from;
  const bool was_border_above = !kept_above || marks_.first_seam(to, to + os::kPageSize) == to;
  if (kept_below) ++borders_;
  if (kept_above) ++borders_;
  if (was_border_below) --borders_;
  if (was_border_above) --borders_;
  for (uintptr_t at = marks_.first_seam(from + os::kPageSize, to); at < to;
       at = marks_.first_seam(at + os::kPageSize, to)) {
    --borders_;
  }
}

// Before they go, so that who is about to register the region, and finds them gone, can tell why.
void Gathering::announce(uintptr_t address, size_t size) {
  marks_.announce(address, size);
  regions_.find(pointer(address))->retired += size;
}

void Gathering::recall(uintptr_t address, size_t size) {
  if (size == 0) return;
  marks_.recall(address, size);
  regions_.find(pointer(address))->retired -= size;
}

// The region that has lost them, which were announced.
Region* Gathering::retire(uintptr_t address, size_t size) {
  Region* const region = regions_.find(pointer(address));
  note_borders(*region, address, address + size);
  regions_.note_hole(address, size);
  marks_.retire(address, size);
  gathered_.fetch_add(size, std::memory_order_relaxed);
  retired_.fetch_add(size, std::memory_order_relaxed);
  if (region->is_empty()) regions_.remove(*region);
  return region;
}

}  // namespace rdmalloc
