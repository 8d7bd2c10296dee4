#pragma once

#include <stdint.h>

#include <atomic>

#include "regcache/shm/fragment.h"

namespace rdmalloc::shm {

// The free fragments of one process, last in first out: a view of a head in shared memory. Any
// thread of any process may put, and any thread of the owner may get, without a lock: a process
// that dies here leaves the list intact.
class FreeList {
 public:
  using Word = std::atomic<uint64_t>;

  FreeList() = default;
  // `fragments` is the owner's own table of them, by index; others only put, and need none.
  FreeList(Word* head, Fragment* const* fragments, uint32_t count)
      : head_(head), fragments_(fragments), count_(count) {}

  // Null: none is free, or the list is damaged.
  Fragment* get() {
    // acquire: the thread that put the fragment here read its bytes before; they are overwritten
    // next. As every change of the head is a read-modify-write, this read is ordered after all
    // puts.
    uint64_t head = head_->load(std::memory_order_acquire);
    for (;;) {
      const auto index = static_cast<uint32_t>(head);
      if (index == 0 || index > count_) return nullptr;
      // The value may be stale if another thread took this fragment meanwhile. The head has then
      // changed, even if this fragment is first again, because the head counts changes.
      Fragment* const first = fragments_[index - 1];
      const uint32_t next = first->next_free.load(std::memory_order_relaxed);
      if (head_->compare_exchange_weak(head, successor(head, next), std::memory_order_acquire)) {
        return first;
      }
    }
  }

  bool has_some() const {
    return static_cast<uint32_t>(head_->load(std::memory_order_relaxed)) != 0;
  }

  void put(Fragment* fragment) {
    uint64_t head = head_->load(std::memory_order_relaxed);
    do {
      fragment->next_free.store(static_cast<uint32_t>(head), std::memory_order_relaxed);
      // release: see get().
    } while (!head_->compare_exchange_weak(head, successor(head, fragment->index + 1),
                                           std::memory_order_release, std::memory_order_relaxed));
  }

 private:
  // The low half is the first fragment's index plus 1, 0 for none; the high half counts changes.
  static uint64_t successor(uint64_t head, uint32_t first) {
    return ((head >> 32) + 1) << 32 | first;
  }

  Word* head_ = nullptr;
  Fragment* const* fragments_ = nullptr;
  uint32_t count_ = 0;
};

}  // namespace rdmalloc::shm
