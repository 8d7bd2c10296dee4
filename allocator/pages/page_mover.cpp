#include "allocator/pages/page_mover.h"

namespace rdmalloc {

// Returns how many bytes were moved. There may be more mappings than we know of, because the
// program may have split ours.
size_t PageMover::move_mapping(uintptr_t from, size_t size, uintptr_t to) {
  size_t done = 0;
  for (size_t step = size; done < size;) {
    if (step > size - done) step = size - done;
    const Status moved = os::move(pointer(from + done), step, pointer(to + done));
    if (ok(moved)) {
      mappings_.note_moved(to + done);
      done += step;
    } else if (moved == Status::kNoMemory || step == os::page_size()) {
      break;
    } else {
      step = os::page_ceil(step / 2);
    }
  }
  return done;
}

// The range was locked a moment ago, so this fails only if the program locks memory itself at the
// same moment.
void PageMover::lock_again(uintptr_t address, size_t size) {
  if (size != 0 && !ok(os::lock_on_fault(pointer(address), size))) lost_locks_ = true;
}

void PageMover::begin(const Region& to) {
  to_ = to;
  end_ = to.base;
  unlocks_ = to.locked && !os::moves_locks();
  mappings_.forget_moved();
  lost_locks_ = false;
}

size_t PageMover::move(uintptr_t address, size_t size, Region** left) {
  announce(address, size);
  if (unlocks_) os::unlock(pointer(address), size);
  size_t done = 0;
  while (done < size) {
    const uintptr_t from = address + done;
    const uintptr_t next = mappings_.next_seam(from, address + size);
    const size_t moved = move_mapping(from, next - from, end_ + done);
    done += moved;
    if (from + moved != next) break;
  }
  if (unlocks_) lock_again(address + done, size - done);
  recall(address + done, size - done);
  end_ += done;
  if (done == 0) return 0;
  os::leave(pointer(address), done);
  *left = retire(address, done);
  moved_.fetch_add(done, std::memory_order_relaxed);
  return done;
}

bool PageMover::give_up(uintptr_t address, size_t size, Region** left) {
  announce(address, size);
  if (!os::give_up(pointer(address), size)) {
    recall(address, size);
    return false;
  }
  *left = retire(address, size);
  given_up_.fetch_add(size, std::memory_order_relaxed);
  return true;
}

size_t PageMover::end() {
  const size_t moved = end_ - to_.base;
  if (unlocks_) lock_again(to_.base, moved);
  to_ = {};
  return moved;
}

// Called before the pages go, so that a thread that is registering the region and finds them gone
// can tell why.
void PageMover::announce(uintptr_t address, size_t size) {
  marks_.announce(address, size);
  Region* const region = regions_.find(pointer(address));
  region->set_retired(region->retired() + size);
}

void PageMover::recall(uintptr_t address, size_t size) {
  if (size == 0) return;
  marks_.recall(address, size);
  Region* const region = regions_.find(pointer(address));
  region->set_retired(region->retired() - size);
}

// Retires announced pages; returns the region that has lost them.
Region* PageMover::retire(uintptr_t address, size_t size) {
  Region* const region = regions_.find(pointer(address));
  mappings_.note_retired(*region, address, address + size);
  regions_.note_hole(address, size);
  marks_.retire(address, size);
  drop_page_tables(address, size);
  if (region->is_empty()) {
    regions_.remove(*region);
    drop_upper_tables(*region);
  }
  return region;
}

// A page table is of no use once nothing is left of what it maps. The kernel keeps it, because the
// pages went one by one. Drops those that map a part of the range, as many in one call as lie side
// by side. `reach`: what one of them maps, in bytes.
template <typename Unused>
void PageMover::drop_tables(uintptr_t from, uintptr_t end, size_t reach, Unused is_unused) {
  uintptr_t at = os::align_down(from, reach);
  uintptr_t first = at;
  const auto drop = [&] {
    if (at != first) os::drop_page_tables(pointer(first), at - first);
  };
  for (; at < end; at += reach) {
    if (!is_target(at, reach) && is_unused(at, reach)) continue;
    drop();
    first = at + reach;
  }
  drop();
}

void PageMover::drop_page_tables(uintptr_t address, size_t size) {
  drop_tables(address, address + size, os::page_table_reach(),
              [this](uintptr_t at, size_t reach)
                  REQUIRES(growth_lock) { return marks_.is_used_up(at, reach); });
}

// The same for a table of such tables, when a region is gone.
void PageMover::drop_upper_tables(const Region& region) {
  drop_tables(region.base, region.end(), os::upper_table_reach(),
              [this](uintptr_t at, size_t reach)
                  REQUIRES(growth_lock) { return marks_.is_vacant(at, reach); });
}

// Part of it is in the region to which pages are being moved, of which no mark tells yet.
bool PageMover::is_target(uintptr_t address, size_t size) const {
  return address < to_.end() && to_.base < address + size;
}

}  // namespace rdmalloc
