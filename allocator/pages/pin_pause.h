// After a refusal to pin more, free unpinned memory is used for a while before asking again:
// asking for every extent would read the kernel's files each time. The pause doubles with each
// refusal in a row.
//
// Runs inside malloc; is_on() anywhere, without a lock.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "allocator/mutex.h"
#include "allocator/os/clock.h"

namespace rdmalloc {

class PinPause {
 public:
  void note_refusal() REQUIRES(growth_lock) {
    length_ns_ = length_ns_ == 0 ? kFirstNs : std::min(2 * length_ns_, kLongestNs);
    until_.store(os::now_ns() + length_ns_, std::memory_order_relaxed);
  }
  void note_grant() REQUIRES(growth_lock) {
    length_ns_ = 0;
    until_.store(0, std::memory_order_relaxed);
  }

  // True while it is useless to ask whether more can be pinned.
  bool is_on() const {
    const uint64_t until = until_.load(std::memory_order_relaxed);
    return until != 0 && os::now_ns() < until;
  }

 private:
  static constexpr uint64_t kFirstNs = 1'000'000;
  static constexpr uint64_t kLongestNs = 128'000'000;

  uint64_t length_ns_ GUARDED_BY(growth_lock) = 0;  // of the last pause; 0: none since a grant
  std::atomic<uint64_t> until_{0};                  // of os::now_ns()
};

}  // namespace rdmalloc
