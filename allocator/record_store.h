// Fixed-size records for bookkeeping that runs inside malloc: cut from metadata mappings, recycled
// through a free list, never given back. Not thread-safe: its owner's lock guards it.
#pragma once

#include <cstddef>
#include <new>

#include "allocator/os/memory.h"

namespace rdmalloc {

template <typename Node>
class RecordStore {
 public:
  // Null if no memory can be mapped.
  Node* get() {
    Slot* slot = free_;
    if (slot != nullptr) {
      free_ = slot->next;
    } else {
      if (fresh_ == fresh_end_ && !refill()) return nullptr;
      slot = fresh_++;
    }
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
    fresh_ = static_cast<Slot*>(os::map_table(kChunk));
    fresh_end_ = fresh_ == nullptr ? nullptr : fresh_ + kChunk / sizeof(Slot);
    if (fresh_ != nullptr) mapped_bytes_ += kChunk;
    return fresh_ != nullptr;
  }

  Slot* free_ = nullptr;
  // Records of the newest chunk that were never handed out: not linked, so that their pages are not
  // touched before they are needed.
  Slot* fresh_ = nullptr;
  Slot* fresh_end_ = nullptr;
  size_t mapped_bytes_ = 0;
};

}  // namespace rdmalloc
