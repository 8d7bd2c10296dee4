#include "allocator/pages/gathering.h"

#include <algorithm>

#include "allocator/os/confinement.h"

namespace rdmalloc {
namespace {

// Moving a piece costs two system calls; faulting in this much costs about four times that.
constexpr size_t kLeastPiece = size_t{64} << 10;
// Giving one to the kernel takes one and needs no mapping. Those that stay lie between retired
// addresses and join nothing: in a program that runs for long they add up.
constexpr size_t kLeastRenewed = size_t{16} << 10;
// The piece's own mapping, and the two that it leaves on its sides.
constexpr size_t kMappingsOfPiece = 3;
// With more than a quarter of the allowed mappings in use, pages are renewed instead of moved.
constexpr size_t kShareOfWhole = 4;
// The whole huge pages, and what lies before and behind them.
constexpr size_t kMostPiecesOfRun = 3;

bool is_movable(const Region& region) {
  return !region.sealed && region.page_kind != os::PageKind::kHugetlb &&
         region.kind != RegionKind::kSparse;
}

}  // namespace

void Gathering::boot(bool is_off, bool is_forced) {
  is_off_ = is_off;
  is_forced_ = is_forced;
}

// As mappings run short, only larger pieces pay: the minimum doubles for each quarter of the
// mappings in use.
size_t Gathering::least_piece(Way way) const {
  if (is_forced_) return os::page_size();
  if (way == Way::kRenew) return kLeastRenewed;
  return kLeastPiece << (4 * mappings_.count() / mappings_.most());
}

bool Gathering::has_room_for(size_t pieces, Way way) const {
  if (way == Way::kRenew) return !is_off_ && pieces_.has_room_for(pieces);
  // If the kernel does not move locked pages, they must be unlocked first; a sandbox forbids that.
  if (!os::moves_locks() && os::is_confined()) return false;
  return !is_off_ && pieces_.has_room_for(pieces) &&
         mappings_.count() + kMappingsOfPiece * (pieces_.count() + pieces) < mappings_.most();
}

Region Gathering::model() const {
  const Region& first = *regions_.find(pointer(pieces_.first_address()));
  Region region;
  region.kind = first.kind;
  region.page_kind = first.page_kind;
  region.use = first.use;
  region.exposed = first.exposed;
  region.locked = first.locked;
  region.gathered = true;
  return region;
}

size_t Gathering::collect(Depot& depot, size_t wanted, size_t most, Way way) {
  return collect_from(depot, wanted, most, least_piece(way), way);
}

size_t Gathering::collect_all(Depot& depot, size_t wanted, Way way) {
  return collect_from(depot, wanted, wanted, os::page_size(), way);
}

Gathering::Way Gathering::best_way() const {
  const bool are_many = kShareOfWhole * mappings_.count() > mappings_.most();
  return are_many && !is_forced_ ? Way::kRenew : Way::kMove;
}

bool Gathering::may_take(const Region& region, Way way) const {
  if (!is_movable(region) || (pieces_.count() != 0 && region.locked != model().locked))
    return false;
  return way == Way::kMove || may_give_up(region);
}

bool Gathering::may_give_up(const Region& region) const {
  return is_movable(region) && !observers_.any_of([&](const RegionObserver& observer) {
    return !observer.has_let_go(region);
  });
}

size_t Gathering::collect_from(Depot& depot, size_t wanted, size_t most, size_t least, Way way) {
  size_t got = 0;
  while (got < wanted && has_room_for(1, way)) {
    size_t size = 0;
    void* const address = depot.take_largest(least, most - got, &size);
    if (address == nullptr) break;
    const Region& region = *regions_.find(address);
    if (!may_take(region, way)) {
      (void)depot.give_back(address, size);  // the run was just there, so no new record is needed
      break;
    }
    if (way == Way::kMove) {
      add_run(depot, reinterpret_cast<uintptr_t>(address), size, region);
    } else {
      pieces_.add({reinterpret_cast<uintptr_t>(address), size, &depot, false});
    }
    got += size;
  }
  return got;
}

// The part of a run that was never handed out becomes a separate piece if it is large enough: it
// need not be zeroed for a caller that wants zeroes.
void Gathering::add_run(Depot& depot, uintptr_t address, size_t size, const Region& region) {
  const bool is_huge = region.page_kind == os::PageKind::kTransparentHuge;
  const uintptr_t end = address + size;
  const Region::Range fresh = region.fresh();
  const uintptr_t from = std::min(std::max(fresh.from, address), end);
  const uintptr_t to = std::min(std::max(fresh.to, from), end);
  const bool is_worth = to - from >= kLeastPiece && has_room_for(2 + kMostPiecesOfRun);
  if (from == address && to == end) {
    pieces_.add({address, size, &depot, true});
  } else if (is_worth) {
    if (from != address) add_used(depot, address, from, is_huge);
    if (end != to) add_used(depot, to, end, is_huge);
    pieces_.add({from, to - from, &depot, true});
  } else {
    add_used(depot, address, end, is_huge);
  }
}

// Whole huge pages go to the front, where no piece of another size puts them out of alignment; the
// rest goes behind.
void Gathering::add_used(Depot& depot, uintptr_t address, uintptr_t end, bool is_huge) {
  const size_t page = os::page_size_of(os::PageKind::kTransparentHuge);
  const uintptr_t from = os::align_up(address, page);
  const uintptr_t to = os::align_down(end, page);
  if (!is_huge || from >= to || !has_room_for(kMostPiecesOfRun)) {
    pieces_.add({address, end - address, &depot, false});
    return;
  }
  pieces_.add_huge({from, to - from, &depot, false});
  if (address != from) pieces_.add({address, from - address, &depot, false});
  if (end != to) pieces_.add({to, end - to, &depot, false});
}

bool Gathering::may_move(uintptr_t address, size_t size) const {
  return has_room_for(mappings_.count_in(address, size)) &&
         is_movable(*regions_.find(pointer(address)));
}

}  // namespace rdmalloc
