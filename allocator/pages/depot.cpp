#include "allocator/pages/depot.h"

#include "allocator/breakage.h"

namespace rdmalloc {

Taken Depot::hand_out(Region* region, void* address, size_t size) {
  if (region->kind == RegionKind::kSparse) return {address, 0};  // purged when it was freed
  const auto start = reinterpret_cast<uintptr_t>(address);
  const uintptr_t end = start + size;
  const uintptr_t from = region->fresh_from;
  const uintptr_t to = region->fresh_to;
  if (end <= from || start >= to) return {address, RDM_BROKEN(reused_is_not_zeroed) ? 0 : size};
  // Only one fresh range is kept: when the middle of it is taken, the larger side stays.
  if (start <= from || end < to - (start - from)) {
    __atomic_store_n(&region->fresh_from, end < to ? end : to, __ATOMIC_RELAXED);
  } else {
    __atomic_store_n(&region->fresh_to, start, __ATOMIC_RELAXED);
  }
  // Fresh bytes followed by used ones: all of it must be zeroed, not only its start.
  if (end > to) return {address, size};
  return {address, start < from ? from - start : 0};
}

Taken Depot::take(const RegionTable& regions, size_t size, size_t alignment, Sum* live) {
  if (largest() < size) return {};
  Locked hold(mutex());
  return take_locked(regions, size, alignment, live);
}

Taken Depot::take_locked(const RegionTable& regions, size_t size, size_t alignment, Sum* live) {
  void* const address = free_.take(size, alignment);
  if (address == nullptr) return {};
  if (RDM_BROKEN(handed_out_twice)) (void)free_.give(address, size);
  note();
  live->fetch_add(size, std::memory_order_relaxed);
  return hand_out(regions.find(address), address, size);
}

Taken Depot::take_at(Region* region, void* address, size_t size, Sum* live, Sum* spare) {
  Locked hold(mutex());
  if (free_.take_at(address, size)) {
    note();
  } else if (spare_.take_at(address, size)) {
    note_taken(size, spare);
  } else {
    return {};
  }
  live->fetch_add(size, std::memory_order_relaxed);
  return hand_out(region, address, size);
}

void* Depot::take_largest(size_t least, size_t most, size_t* size) {
  Locked hold(mutex());
  void* const address = free_.take_largest(least, most, size);
  note();
  return address;
}

Status Depot::give(void* address, size_t size, Sum* live) {
  Locked hold(mutex());
  return give_locked(address, size, live);
}

Status Depot::give_locked(void* address, size_t size, Sum* live) {
  const Status given = free_.give(address, size);
  note();
  if (ok(given) && live != nullptr) live->fetch_sub(size, std::memory_order_relaxed);
  return given;
}

Status Depot::exchange(void* given, size_t given_size, const RegionTable& regions, size_t size,
                       size_t alignment, Sum* live, Taken* taken) {
  Locked hold(mutex());
  const Status status = give_locked(given, given_size, live);
  if (ok(status)) *taken = take_locked(regions, size, alignment, live);
  return status;
}

bool Depot::has(size_t size, size_t alignment) {
  if (largest() < size) return false;
  Locked hold(mutex());
  return free_.has(size, alignment);
}

bool Depot::prepare() {
  Locked hold(mutex());
  return free_.prepare();
}

void Depot::add(const Region& region, size_t taken, size_t kept, Sum* spare) {
  if (taken == region.length) return;
  Locked hold(mutex());
  if (kept != 0 && ok(spare_.give(pointer(region.base + taken), kept))) {
    spare->fetch_add(kept, std::memory_order_relaxed);
    taken += kept;
  }
  if (taken != region.length) free_.add(pointer(region.base + taken), region.length - taken);
  note();
}

void* Depot::take_spare_at(uintptr_t address, size_t* size, Sum* spare) {
  if (spare_bytes() == 0) return nullptr;
  Locked hold(mutex());
  void* const run = spare_.take_run_at(address, size);
  if (run != nullptr) note_taken(*size, spare);
  return run;
}

size_t Depot::clear(Sum* spare) {
  Locked hold(mutex());
  const size_t bytes = free_.free_bytes() + spare_.free_bytes();
  spare->fetch_sub(spare_.free_bytes(), std::memory_order_relaxed);
  free_.clear();
  spare_.clear();
  note();
  return bytes;
}

}  // namespace rdmalloc
