#include "regcache/pool/chunk_table.h"

#include "allocator/breakage.h"
#include "allocator/os/memory.h"
#include "regcache/pool/pool_memory.h"
#include "regcache/posix_lock.h"

namespace rdmalloc {

bool ChunkTable::set_up() {
  // The window exists once something has been allocated.
  memory_->release(memory_->allocate(1, 0, 0));
  map_.window_base = memory_->window().base();
  map_.window_size = memory_->window().size();
  if (map_.window_size == 0 || map_.window_base % Chunk::kUnit != 0) return false;
  const size_t units = (map_.window_size + Chunk::kUnit - 1) >> Chunk::kUnitShift;
  if (map_.units == nullptr) {
    map_.units = static_cast<std::atomic<uint32_t>*>(os::map_metadata(units * sizeof *map_.units));
  }
  if (map_.chunks == nullptr) {
    map_.chunks = static_cast<Chunk*>(os::map_metadata(kMost * sizeof(Chunk)));
  }
  return map_.units != nullptr && map_.chunks != nullptr && memory_->attach(this);
}

// Records that were never used stay untouched until needed.
Chunk* ChunkTable::take() {
  PosixLock hold(lock_);
  Chunk* chunk = free_;
  if (chunk != nullptr) {
    free_ = chunk->next;
    chunk->next = nullptr;
    return chunk;
  }
  if (next_ == kMost) return nullptr;
  chunk = &map_.chunks[next_];
  chunk->number = static_cast<uint32_t>(next_++);
  return chunk;
}

void ChunkTable::give(Chunk* chunk) {
  PosixLock hold(lock_);
  chunk->next = free_;
  free_ = chunk;
}

void ChunkTable::publish(const Chunk& chunk) {
  const size_t first = map_.unit_of(chunk.base);
  for (size_t i = 0; i < chunk.bytes >> Chunk::kUnitShift; ++i) {
    map_.units[first + i].store(chunk.number, std::memory_order_release);
  }
  // For holes made since it was taken.
  mark_holes(chunk.base, chunk.base + chunk.bytes);
}

void ChunkTable::withdraw(const Chunk& chunk) {
  const size_t first = map_.unit_of(chunk.base);
  for (size_t i = 0; i < chunk.bytes >> Chunk::kUnitShift; ++i) {
    map_.units[first + i].store(0, std::memory_order_relaxed);
  }
}

void ChunkTable::on_hole(const Region& region) noexcept { mark_holes(region.base, region.end()); }

// Makes gets in chunks with holes check each buffer. Whoever makes a hole marks its pages and then
// reads the table of units; whoever adds a chunk writes the table and then reads the marks. The one
// that comes to meeting_ second sees what the other wrote. A record that was meanwhile taken for
// another chunk is marked for nothing, and right.
void ChunkTable::mark_holes(uintptr_t from, uintptr_t to) {
  meeting_.fetch_add(1, std::memory_order_acq_rel);
  const PageMarks& marks = memory_->marks();
  for (uintptr_t at = marks.first_hole(from, to); at < to; at = marks.first_hole(at, to)) {
    const size_t unit = map_.unit_of(at);
    const uint32_t number = map_.units[unit].load(std::memory_order_acquire);
    if (number != 0 && !RDM_BROKEN(destroyed_buffer_has_key)) {
      map_.chunks[number].keys.store(nullptr, std::memory_order_relaxed);
    }
    at = map_.end_of(unit);
    if (at >= to) break;
  }
}

}  // namespace rdmalloc
