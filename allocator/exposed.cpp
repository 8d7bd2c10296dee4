// The part of the heap that exposed memory comes from: extents of whole pages, in pinned regions
// that hold nothing else, since a remote key opens all of its region. jemalloc has no part in it:
// its thread caches go by size alone and would hand a freed exposed object to malloc.
//
// The size of a live extent stands beside its region (Region::live_pages), which also tells a
// second free of it from the first.
#include "allocator/heap.h"

namespace rdmalloc {
namespace {

size_t page_of(const Region& region, const void* address) {
  return (reinterpret_cast<uintptr_t>(address) - region.base) / os::kPageSize;
}

size_t bytes_of(uint32_t pages) { return size_t{pages} * os::kPageSize; }

}  // namespace

// Under the pool lock. The record of the extent that starts at this address, if one does; null
// where none can.
uint32_t* Heap::live_exposed(const void* address) const {
  const Region* region = regions_.find(address);
  if (region == nullptr || !region->exposed) return nullptr;
  if (reinterpret_cast<uintptr_t>(address) % os::kPageSize != 0) return nullptr;
  return &region->live_pages[page_of(*region, address)];
}

void* Heap::allocate_exposed(size_t size, size_t alignment) {
  if (size > bytes_of(UINT32_MAX)) return nullptr;
  return take_or_grow({size, alignment, node_here(), true}).address;
}

size_t Heap::exposed_size(const void* address) {
  Locked hold(pool_);
  const uint32_t* pages = live_exposed(address);
  return pages == nullptr ? 0 : bytes_of(*pages);
}

// Under the pool lock. What is not pinned by this process, and what there is no memory to keep a
// record of, is free from here on, but for nobody.
void Heap::put_back_exposed(const Region& region, void* address, size_t size) {
  note_given_back(size);
  live_exposed_ -= size;
  if (!region.locked || !ok(pool_of(region).give(address, size))) retired_ += size;
}

bool Heap::release_exposed(void* address) {
  Locked hold(pool_);
  uint32_t* pages = live_exposed(address);
  if (pages == nullptr || *pages == 0) return false;
  const size_t size = bytes_of(*pages);
  *pages = 0;
  put_back_exposed(*regions_.find(address), address, size);
  return true;
}

bool Heap::resize_exposed(void* address, size_t size) {
  Locked hold(pool_);
  uint32_t* pages = live_exposed(address);
  if (pages == nullptr || *pages == 0) return false;
  const Region& region = *regions_.find(address);
  const size_t before = bytes_of(*pages);
  char* const start = static_cast<char*>(address);
  if (size > before) {
    char* const end = start + before;
    if (reinterpret_cast<uintptr_t>(end) == region.end()) return false;
    if (!pool_of(region).take_at(end, size - before)) return false;
    (void)hand_out(end, size - before);
    *live_exposed(end) = 0;  // not an extent of its own
  } else if (size < before) {
    put_back_exposed(region, start + size, before - size);
  }
  *pages = static_cast<uint32_t>(size / os::kPageSize);
  return true;
}

// In the child of a fork: what its parent's exposed regions have free is not pinned any more, and
// exposed memory must be.
void Heap::retire_inherited() {
  for (ExtentPool& pool : exposed_) {
    retired_ += pool.free_bytes();
    pool.clear();
  }
}

bool Heap::are_live_exposed_valid() const {
  size_t live = 0;
  for (size_t i = 0; i < regions_.size(); ++i) {
    const Region& region = regions_[i];
    if (region.exposed != (region.live_pages != nullptr)) return false;
    if (!region.exposed) continue;
    if (region.kind != RegionKind::kPinned) return false;
    const size_t pages = region.length / os::kPageSize;
    for (size_t page = 0; page < pages;) {
      const uint32_t extent = region.live_pages[page];
      if (extent > pages - page) return false;
      live += bytes_of(extent);
      page += extent == 0 ? 1 : extent;
    }
  }
  return live == live_exposed_;
}

}  // namespace rdmalloc
