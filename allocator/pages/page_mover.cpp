#include "allocator/pages/page_mover.h"

#include "allocator/os/limits.h"

namespace rdmalloc {
namespace {

constexpr size_t kShareOfMappings = 8;

void* pointer(uintptr_t address) { return reinterpret_cast<void*>(address); }

}  // namespace

// Not read at start: it takes a file, and small processes never gather.
size_t PageMover::most_mappings() const {
  if (most_mappings_ == 0) most_mappings_ = os::most_mappings() / kShareOfMappings + 1;
  return most_mappings_;
}

size_t PageMover::count_mappings(uintptr_t address, size_t size) const {
  size_t mappings = 1;
  const uintptr_t end = address + size;
  for (uintptr_t at = marks_.first_seam(address + os::page_size(), end); at < end;
       at = marks_.first_seam(at + os::page_size(), end)) {
    ++mappings;
  }
  return mappings;
}

// Returns how many bytes were moved. There may be more mappings than we know of, because the
// program may have split ours.
size_t PageMover::move_mapping(uintptr_t from, size_t size, uintptr_t to) {
  size_t done = 0;
  for (size_t step = size; done < size;) {
    if (step > size - done) step = size - done;
    const Status moved = os::move(pointer(from + done), step, pointer(to + done));
    if (ok(moved)) {
      marks_.mark_seam(to + done);
      ++moved_mappings_;
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

void PageMover::begin(uintptr_t to, bool is_locked) {
  start_ = end_ = to;
  unlocks_ = is_locked && !os::moves_locks();
  moved_mappings_ = 0;
  lost_locks_ = false;
}

size_t PageMover::move(uintptr_t address, size_t size, Region** left) {
  announce(address, size);
  if (unlocks_) os::unlock(pointer(address), size);
  size_t done = 0;
  while (done < size) {
    const uintptr_t from = address + done;
    const uintptr_t next = marks_.first_seam(from + os::page_size(), address + size);
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
  if (unlocks_) lock_again(start_, end_ - start_);
  return end_ - start_;
}

void PageMover::note_region(const Region& region, size_t fresh) {
  ++borders_;
  if (region.gathered) borders_ += moved_mappings_;
  if (fresh == 0) return;
  ++borders_;
  if (fresh != region.length) marks_.mark_seam(region.end() - fresh);
}

// A retired range merges into one mapping with retired or reserved neighbours.
void PageMover::note_borders(const Region& region, uintptr_t from, uintptr_t to) {
  const uintptr_t below = from - os::page_size();
  const bool kept_below = from != region.base && !is_retired(below);
  const bool kept_above = to != region.end() && !is_retired(to);
  const bool was_border_below =
      !kept_below || marks_.first_seam(from, from + os::page_size()) == from;
  const bool was_border_above = !kept_above || marks_.first_seam(to, to + os::page_size()) == to;
  if (kept_below) ++borders_;
  if (kept_above) ++borders_;
  if (was_border_below) --borders_;
  if (was_border_above) --borders_;
  for (uintptr_t at = marks_.first_seam(from + os::page_size(), to); at < to;
       at = marks_.first_seam(at + os::page_size(), to)) {
    --borders_;
  }
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
  note_borders(*region, address, address + size);
  regions_.note_hole(address, size);
  marks_.retire(address, size);
  if (region->is_empty()) regions_.remove(*region);
  return region;
}

}  // namespace rdmalloc
