#pragma once

#include <stdint.h>
#include <string.h>

#include <atomic>

#include "allocator/os/cache_line.h"
#include "regcache/shm/ring.h"

namespace rdmalloc::shm {

// A slot of a fast box: a whole small message, or the offset of a fragment.
struct Slot {
  std::atomic<uint64_t> word;  // an entry, see ring.h
  uint64_t tag;
  unsigned char* bytes() { return reinterpret_cast<unsigned char*>(this + 1); }
};

// The head of a fast box; the slots follow on their own lines.
struct alignas(os::kCacheLine) BoxHead {
  std::atomic<uint32_t> sender;  // rank plus 1, permanently; 0: unclaimed
  uint64_t after;  // that sender's messages that went to the inbox; they precede the box's
};
static_assert(sizeof(BoxHead) == 64);

// Fast boxes: a receiver has a few, and a process that often sends to it claims one. From then on
// everything it sends there goes through the box, so that nothing overtakes: small messages whole,
// in one line for the receiver to fetch, others as the offset of their fragment. The positions are
// private to the two processes.
class FastBox {
 public:
  FastBox() = default;
  // `slots` is a power of two; `slot_size`, a cache line, is also the head's size.
  FastBox(unsigned char* box, uint32_t slots, uint32_t slot_size)
      : head_(reinterpret_cast<BoxHead*>(box)),
        slots_(box + slot_size),
        mask_(slots - 1),
        shift_(static_cast<unsigned>(__builtin_ctz(slots))),
        slot_size_(slot_size) {}

  explicit operator bool() const { return head_ != nullptr; }
  uint32_t most() const { return slot_size_ - static_cast<uint32_t>(sizeof(Slot)); }

  // For the sender. True: the box belongs to this rank from now on.
  bool claim(uint32_t rank, uint64_t after) {
    uint32_t nobody = 0;
    if (head_->sender.load(std::memory_order_relaxed) != 0 ||
        !head_->sender.compare_exchange_strong(nobody, rank + 1, std::memory_order_relaxed)) {
      return false;
    }
    head_->after = after;  // published by the first slot that is filled
    return true;
  }

  // False: full. Called by one thread at a time.
  bool push(uint64_t tag, const void* bytes, uint32_t length) {
    Slot* slot = next_free();
    if (slot == nullptr) return false;
    slot->tag = tag;
    if (length != 0) memcpy(slot->bytes(), bytes, length);
    fill(slot, kWhole | length);
    return true;
  }
  bool push_fragment(uint64_t offset) {
    Slot* slot = next_free();
    if (slot == nullptr) return false;
    fill(slot, offset);
    return true;
  }

  // May be called by any thread of the sender, also while another one pushes.
  bool has_room() const { return next_free() != nullptr; }

  // For the receiver: the next filled slot, or null. The slot stays the receiver's until done();
  // those after it can be taken before that.
  Slot* peek() const {
    Slot* slot = at(position());
    // acquire: pairs with fill().
    const uint64_t word = slot->word.load(std::memory_order_acquire);
    const bool is_filled =
        entry::value(word) != 0 && entry::turn(word) == entry::turn_of(position(), shift_);
    return is_filled ? slot : nullptr;
  }
  void advance() { __atomic_store_n(&position_, position() + 1, __ATOMIC_RELAXED); }
  uint32_t sender() const { return head_->sender.load(std::memory_order_relaxed) - 1; }
  uint64_t after() const { return head_->after; }

  static bool is_whole(const Slot* slot) { return (value_of(slot) & kWhole) != 0; }
  static uint32_t length(const Slot* slot) { return static_cast<uint32_t>(value_of(slot)); }
  static uint64_t fragment(const Slot* slot) { return value_of(slot); }
  // release: the receiver has finished reading the slot before the sender's acquire in next_free().
  static void done(Slot* slot) {
    const uint64_t word = slot->word.load(std::memory_order_relaxed);
    slot->word.store(entry::freed(word), std::memory_order_release);
  }

 private:
  static constexpr uint64_t kWhole = uint64_t{1} << (entry::kValueBits - 1);

  static uint64_t value_of(const Slot* slot) {
    return entry::value(slot->word.load(std::memory_order_relaxed));
  }
  uint32_t position() const { return __atomic_load_n(&position_, __ATOMIC_RELAXED); }
  Slot* at(uint32_t position) const {
    return reinterpret_cast<Slot*>(slots_ + size_t{position & mask_} * slot_size_);
  }
  Slot* next_free() const {
    const uint32_t position = this->position();
    Slot* slot = at(position);
    const uint64_t free = entry::make(entry::turn_of(position, shift_), 0);
    return slot->word.load(std::memory_order_acquire) == free ? slot : nullptr;
  }
  void fill(Slot* slot, uint64_t value) {
    const uint64_t turn = entry::turn_of(position(), shift_);
    advance();
    slot->word.store(entry::make(turn, value), std::memory_order_release);
  }

  BoxHead* head_ = nullptr;
  unsigned char* slots_ = nullptr;
  uint32_t mask_ = 0;
  unsigned shift_ = 0;
  uint32_t slot_size_ = 0;
  // One thread at a time moves it; others only read it. Not a std::atomic, because this class is a
  // value.
  uint32_t position_ = 0;
};

}  // namespace rdmalloc::shm
