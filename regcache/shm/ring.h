#pragma once

#include <stdint.h>

#include <atomic>

namespace rdmalloc::shm {

// One word of a queue: its value, and the turn around the queue at which it was written. The turn
// distinguishes a full queue from an empty one without either side reading the other's position:
// heads stay with senders and tails with receivers, as the layouts promise.
namespace entry {

constexpr unsigned kValueBits = 48;
constexpr uint64_t kValueMask = (uint64_t{1} << kValueBits) - 1;

// A value of 0 marks a free entry, to be filled at that turn. So zeroed memory is an empty queue.
constexpr uint64_t make(uint64_t turn, uint64_t value) { return turn << kValueBits | value; }
constexpr uint64_t value(uint64_t word) { return word & kValueMask; }
constexpr uint64_t turn(uint64_t word) { return word >> kValueBits; }
constexpr uint64_t kTurnMask = 0xffff;
constexpr uint64_t turn_of(uint32_t position, unsigned shift) {
  return (position >> shift) & kTurnMask;
}
// Written by the receiver when it has taken the value: the entry is free for the next turn.
constexpr uint64_t freed(uint64_t word) { return make((turn(word) + 1) & kTurnMask, 0); }

}  // namespace entry

// A circular buffer from one process to another: a view of a queue, a head and a tail in shared
// memory, wherever this process maps them. Values are offsets in the segment, never pointers. One
// process sends and one receives; nothing here waits, allocates or makes a system call.
class Ring {
 public:
  using Word = std::atomic<uint64_t>;
  using Position = std::atomic<uint32_t>;  // free-running; a queue's length divides its range

  static constexpr uint32_t kMostEntries = 65536;

  Ring() = default;
  // `entries` is a power of two, at most kMostEntries.
  Ring(Word* queue, uint32_t entries, Position* head, Position* tail)
      : queue_(queue),
        head_(head),
        tail_(tail),
        mask_(entries - 1),
        shift_(static_cast<unsigned>(__builtin_ctz(entries))) {}

  // False: full. Called by one thread at a time. `value` must not be 0, nor wider than kValueBits.
  bool push(uint64_t value) {
    // relaxed: only this thread moves the head.
    const uint32_t position = head_->load(std::memory_order_relaxed);
    Word& word = queue_[position & mask_];
    const uint64_t turn = entry::turn_of(position, shift_);
    if (word.load(std::memory_order_relaxed) != entry::make(turn, 0)) return false;
    // release: the data that the value refers to was written before; pop()'s acquire sees it.
    word.store(entry::make(turn, value), std::memory_order_release);
    head_->store(position + 1, std::memory_order_relaxed);
    return true;
  }

  // Like push(), for any number of the sender's threads, without a lock: a thread takes a position
  // by moving the head, after it has seen that the entry is free for exactly this turn. A thread
  // interrupted after that delays those behind it, but nobody overwrites its entry, because at the
  // next turn the entry is not free for that turn.
  bool push_shared(uint64_t value) {
    uint32_t position = head_->load(std::memory_order_relaxed);
    for (;;) {
      Word& word = queue_[position & mask_];
      const uint64_t turn = entry::turn_of(position, shift_);
      if (word.load(std::memory_order_relaxed) != entry::make(turn, 0)) {
        const uint32_t now = head_->load(std::memory_order_relaxed);
        if (now == position) return false;
        position = now;
        continue;
      }
      // relaxed: taking the position publishes nothing; the entry does. The entry cannot fill
      // between the check above and here unless the head moves, and then this fails.
      if (head_->compare_exchange_weak(position, position + 1, std::memory_order_relaxed)) {
        word.store(entry::make(turn, value), std::memory_order_release);
        return true;
      }
    }
  }

  // For the sender. True: push() would have succeeded just now.
  bool has_room() const {
    const uint32_t position = head_->load(std::memory_order_relaxed);
    return queue_[position & mask_].load(std::memory_order_relaxed) ==
           entry::make(entry::turn_of(position, shift_), 0);
  }

  // For the receiver. True: pop() would return something.
  bool has_next() const {
    const uint32_t position = tail_->load(std::memory_order_relaxed);
    return is_filled(queue_[position & mask_].load(std::memory_order_relaxed), position);
  }

  // False: empty. Called by one thread of the receiver at a time.
  bool pop(uint64_t* value) {
    const uint32_t position = tail_->load(std::memory_order_relaxed);
    Word& word = queue_[position & mask_];
    const uint64_t filled = word.load(std::memory_order_acquire);
    if (!is_filled(filled, position)) return false;
    *value = entry::value(filled);
    // relaxed is enough: it tells the sender only that the entry may be overwritten. What the value
    // refers to returns to the sender through a free list.
    word.store(entry::freed(filled), std::memory_order_relaxed);
    tail_->store(position + 1, std::memory_order_relaxed);
    return true;
  }

 private:
  bool is_filled(uint64_t word, uint32_t position) const {
    return entry::value(word) != 0 && entry::turn(word) == entry::turn_of(position, shift_);
  }

  Word* queue_ = nullptr;
  Position* head_ = nullptr;
  Position* tail_ = nullptr;
  uint32_t mask_ = 0;
  unsigned shift_ = 0;
};

}  // namespace rdmalloc::shm
