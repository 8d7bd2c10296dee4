#pragma once

#include <stdint.h>

#include <atomic>

#include "regcache/shm/fragment.h"

namespace rdmalloc::shm {

// What a process receives through under the layout mpsc: one list of fragments for all senders,
// linked by offsets. Any thread of any process pushes; one thread of the receiver at a time pops.
// Nothing here waits. A sender that stops, or dies, between its two steps hides what follows; a
// receiver that is told of its death gives up anyway.
class Inbox {
 public:
  using Word = std::atomic<uint64_t>;

  Inbox() = default;
  // Senders write `last` and the receiver `first`, so they are on separate lines. Offset 0 is
  // `base`, which holds no fragment.
  Inbox(unsigned char* base, Word* last, Word* first) : base_(base), last_(last), first_(first) {}

  void push(uint64_t offset) {
    at(offset)->next.store(0, std::memory_order_relaxed);
    // acq_rel: release for the next sender, who writes to this fragment's link; acquire for the
    // fragment before, or for the receiver's `first_` if it emptied the list.
    const uint64_t before = last_->exchange(offset, std::memory_order_acq_rel);
    // release: pop() reads the fragment through one of these two words.
    Word& link = before == 0 ? *first_ : at(before)->next;
    link.store(offset, std::memory_order_release);
  }

  bool has_next() const { return first_->load(std::memory_order_relaxed) != 0; }

  // False: empty, or the fragment after the first is about to be linked.
  bool pop(uint64_t* offset) {
    const uint64_t first = first_->load(std::memory_order_acquire);
    if (first == 0) return false;
    uint64_t next = at(first)->next.load(std::memory_order_acquire);
    if (next == 0) {
      // This is the last fragment so far. The order matters: a sender that finds the list empty
      // writes `first_`, which must not be overwritten.
      if (last_->load(std::memory_order_relaxed) != first) return false;
      first_->store(0, std::memory_order_relaxed);
      uint64_t expected = first;
      // release: that sender's store comes after the one above.
      if (!last_->compare_exchange_strong(expected, 0, std::memory_order_acq_rel,
                                          std::memory_order_relaxed)) {
        // Another fragment came and saw a non-empty list, so it is linked after this one.
        first_->store(first, std::memory_order_relaxed);
        return false;
      }
    } else {
      first_->store(next, std::memory_order_relaxed);
    }
    *offset = first;
    return true;
  }

 private:
  Fragment* at(uint64_t offset) const { return reinterpret_cast<Fragment*>(base_ + offset); }

  unsigned char* base_ = nullptr;
  Word* last_ = nullptr;
  Word* first_ = nullptr;
};

}  // namespace rdmalloc::shm
