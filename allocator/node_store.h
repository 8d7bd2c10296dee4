// Fixed-size records for bookkeeping that runs inside malloc: cut from metadata mappings, recycled
// through a free list, never given back. Not thread-safe: its owner's lock guards it.
#pragma once

#include <cstddef>
#include <new>

#include "allocator/os/memory.h"

namespace rdmalloc {

template <typename Node>
class NodeStore {
 public:
  // Null when no memory can be mapped.
  Node* get() {
    if (free_ == nullptr && !refill()) return nullptr;
    Slot* slot = free_;
    free_ = slot->next;
    return new (slot->storage) Node;
  }

  void put(Node* node) {
    node->~Node();
    auto* slot = reinterpret_cast<Slot*>(node);
    slot->next = free_;
    free_ = slot;
  }

  size_t mapped_bytes() const { return mapped_bytes_; }

 private:
  union Slot {
    Slot* next;
    alignas(Node) unsigned char storage[sizeof(Node)];
  };
  static constexpr size_t kChunk = size_t{64} << 10;

  bool refill() {
    auto* slots = static_cast<Slot*>(os::map_metadata(kChunk));
    if (slots == nullptr) return false;
    mapped_bytes_ += kChunk;
    // Lowest address first, so that few records stay on few pages.
    for (size_t i = kChunk / sizeof(Slot); i-- > 0;) {
      slots[i].next = free_;
      free_ = &slots[i];
    }
    return true;
  }

  Slot* free_ = nullptr;
  size_t mapped_bytes_ = 0;
};

}  // namespace rdmalloc
