#include "regcache/foreign/remote_index.h"

#include <string.h>

#include <new>

#include "allocator/os/memory.h"

namespace rdmalloc {

bool RemoteOrigin::is_of(const rdm_remote_memory& memory) const {
  return base == memory.base && length >= memory.length && handle_size == memory.handle_size &&
         memcmp(handle, memory.handle, handle_size) == 0;
}

bool RemoteOrigin::overlaps(const RemoteOrigin& other) const {
  return peer == other.peer && base < other.end() && other.base < end();
}

RemoteOrigin RemoteOrigin::of(const rdm_remote_memory& memory) {
  RemoteOrigin origin;
  origin.peer = memory.peer;
  origin.base = memory.base;
  origin.length = memory.length;
  origin.handle_size = memory.handle_size;
  memcpy(origin.handle, memory.handle, memory.handle_size);
  return origin;
}

bool RemoteIndex::open() {
  if (origins_ == nullptr) {
    void* const memory = os::map_metadata(CacheEntries::kCapacity * sizeof(RemoteOrigin));
    origins_ = static_cast<RemoteOrigin*>(memory);
  }
  return origins_ != nullptr;
}

void RemoteIndex::set_origin(const CacheEntry& entry, const RemoteOrigin& origin) {
  new (&origin_of(entry)) RemoteOrigin(origin);
}

CacheEntry* RemoteIndex::first_overlapping(const RemoteOrigin& range) {
  auto at = by_peer_.upper_bound(range);
  if (at != by_peer_.begin()) {
    auto before = at;
    if ((--before)->overlaps(range)) at = before;
  }
  if (at == by_peer_.end() || !at->overlaps(range)) return nullptr;
  return &entries_.at(static_cast<uint32_t>(&*at - origins_));
}

void RemoteIndex::insert(const CacheEntry& entry) { by_peer_.insert(origin_of(entry)); }

void RemoteIndex::erase(const CacheEntry& entry) {
  by_peer_.erase(by_peer_.iterator_to(origin_of(entry)));
}

bool RemoteIndex::validate() const {
  const RemoteOrigin* last = nullptr;
  for (const RemoteOrigin& known : by_peer_) {
    if (known.length == 0 || known.end() < known.base) return false;
    if (last != nullptr && last->overlaps(known)) return false;
    last = &known;
  }
  return true;
}

}  // namespace rdmalloc
