// Whether a domain is open, and how many threads are inside: in what may call its backend, or reads
// what closing takes away. Closing waits until they have left.
//
// Takes no lock. Any thread; opening, shutting and freeing by one thread at a time.
#pragma once

#include <atomic>
#include <cstdint>

#include "allocator/os/futex.h"

namespace rdmalloc {

class Entrance {
 public:
  constexpr Entrance() = default;
  Entrance(const Entrance&) = delete;
  Entrance& operator=(const Entrance&) = delete;

  bool is_open() const { return phase_.load(std::memory_order_acquire) == Phase::kOpen; }
  // Open, being closed, or a parent's.
  bool is_in_use() const { return phase_.load(std::memory_order_acquire) != Phase::kFree; }
  bool is_of_parent() const { return phase_.load(std::memory_order_acquire) == Phase::kForked; }
  bool has_anyone_inside() const { return inside_.load(std::memory_order_seq_cst) != 0; }

  // False: the domain is not open. Otherwise leave() must follow. Either shut() sees the thread
  // that enters, or the thread sees that the domain is shut: both sides write before they read, and
  // all of it is sequentially consistent.
  bool enter() const {
    // Check first without writing: threads that keep looking up while the domain is closed must not
    // delay closing.
    if (!is_open()) return false;
    inside_.fetch_add(1, std::memory_order_seq_cst);
    if (phase_.load(std::memory_order_seq_cst) == Phase::kOpen) return true;
    leave();
    return false;
  }
  void leave() const {
    if (inside_.fetch_sub(1, std::memory_order_seq_cst) == 1 &&
        phase_.load(std::memory_order_seq_cst) == Phase::kClosing) {
      os::wake_all(inside_);
    }
  }

  void open() { phase_.store(Phase::kOpen, std::memory_order_seq_cst); }
  // From now on nobody enters; waits until nobody is inside.
  void shut() {
    phase_.store(Phase::kClosing, std::memory_order_seq_cst);
    while (const uint32_t others = inside_.load(std::memory_order_seq_cst)) {
      os::wait_while(inside_, others);
    }
  }
  void free() { phase_.store(Phase::kFree, std::memory_order_release); }

  // The threads that were inside exist only in the parent.
  void note_fork_child() {
    phase_ = Phase::kForked;
    inside_ = 0;
  }

 private:
  enum class Phase : uint8_t { kFree, kOpen, kClosing, kForked };

  std::atomic<Phase> phase_{Phase::kFree};
  mutable std::atomic<uint32_t> inside_{0};
};

}  // namespace rdmalloc
