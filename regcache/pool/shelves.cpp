#include "regcache/pool/shelves.h"

#include <string.h>

#include "regcache/pool/pool_memory.h"
#include "regcache/posix_lock.h"

namespace rdmalloc {

void Shelves::open() {
  held_ = 0;
  for (Shelf& shelf : shelves_) shelf = {};
}

void Shelves::put(const PoolItem* items, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    Shelf& shelf = shelves_[buffers_.chunk_of(items[i]).node];
    shelf.items[shelf.count++] = items[i];
  }
}

bool Shelves::take(int node, PoolItem* out) {
  Shelf& shelf = shelves_[node];
  if (shelf.count == 0) return false;
  *out = shelf.items[--shelf.count];
  return true;
}

bool Shelves::take_any(PoolItem* out) {
  for (int node = 0; node < os::kMaxNodes; ++node) {
    if (take(node, out)) return true;
  }
  return false;
}

void Shelves::move_to(Stock* stock, int node, size_t most) {
  Shelf& shelf = shelves_[node];
  for (size_t i = 0; i < most && shelf.count != 0; ++i) {
    if (!stock->push(shelf.items[shelf.count - 1])) return;
    --shelf.count;
  }
}

size_t Shelves::count() const {
  size_t sum = 0;
  for (const Shelf& shelf : shelves_) sum += shelf.count;
  return sum;
}

bool Shelves::validate() const {
  for (const Shelf& shelf : shelves_) {
    if (shelf.count > shelf.room || shelf.held > shelf.room) return false;
    for (size_t i = 0; i < shelf.count; ++i) {
      if (!buffers_.is_free(shelf.items[i])) return false;
    }
  }
  return true;
}

bool Shelves::is_empty(int node) {
  PosixLock hold(&lock_);
  return shelves_[node].count == 0;
}

bool Shelves::is_misplaced(int node) {
  PosixLock hold(&lock_);
  return shelves_[node].is_misplaced;
}

void Shelves::note_misplaced(int node) {
  PosixLock hold(&lock_);
  shelves_[node].is_misplaced = true;
}

bool Shelves::make_room(PoolMemory& memory, int node, size_t more) {
  Shelf& shelf = shelves_[node];
  const size_t needed = shelf.held + more;
  if (needed <= shelf.room) return true;
  const size_t room = needed > shelf.room * 2 ? needed : shelf.room * 2;
  auto* const items = static_cast<PoolItem*>(memory.allocate(room * sizeof(PoolItem), 0, 0));
  if (items == nullptr) return false;
  PoolItem* before = nullptr;
  {
    PosixLock hold(&lock_);
    if (shelf.count != 0) memcpy(items, shelf.items, shelf.count * sizeof *items);
    before = shelf.items;
    shelf.items = items;
    shelf.room = room;
  }
  memory.release(before);
  return true;
}

void Shelves::add(const Chunk& chunk) {
  Shelf& shelf = shelves_[chunk.node];
  shelf.held += chunk.usable;
  PosixLock hold(&lock_);
  held_.fetch_add(chunk.usable, std::memory_order_relaxed);
  // Backwards, so that they are handed out in address order.
  for (uint32_t i = chunk.count; i-- > 0;) {
    if (chunk.state_of(i) != static_cast<uint8_t>(BufferState::kFree)) continue;
    shelf.items[shelf.count++] = PoolItem(chunk.number, i);
  }
}

void Shelves::release(PoolMemory& memory) {
  for (Shelf& shelf : shelves_) {
    PoolItem* const items = shelf.items;
    shelf = {};
    memory.release(items);
  }
  held_ = 0;
}

}  // namespace rdmalloc
