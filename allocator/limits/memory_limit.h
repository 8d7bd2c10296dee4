// How much memory there is for this process, how much of it may be held, and how much is left now.
//
// Runs inside malloc; what the limits are may be read by anybody, and what is left too.
#pragma once

#include <atomic>
#include <cstdint>

#include "allocator/mutex.h"

namespace rdmalloc {

class MemoryLimit {
 public:
  constexpr MemoryLimit() = default;
  MemoryLimit(const MemoryLimit&) = delete;
  MemoryLimit& operator=(const MemoryLimit&) = delete;

  // `machine`: RAM; `total`: that, or the control group's limit.
  void set_total(uint64_t machine, uint64_t total) REQUIRES(growth_lock);
  // `is_share`: not an amount that the user gave in bytes, which would be taken as it is. Of a
  // share, room is left for what a process has besides its heap.
  void set_cap(uint64_t bytes, bool is_share) REQUIRES(growth_lock);

  // RAM, or the control group's limit.
  uint64_t total() const { return total_.load(std::memory_order_relaxed); }
  uint64_t machine() const REQUIRES(growth_lock) { return machine_; }
  // Most that is held.
  uint64_t cap() const { return cap_.load(std::memory_order_relaxed); }

  // True if the machine could not hold it with all its RAM and swap: the kernel refuses such a
  // request, too.
  bool is_beyond_machine(uint64_t bytes) const REQUIRES(growth_lock);

  // How much all threads that are populating may populate together now. Reads /proc. Any thread,
  // under any lock or none.
  uint64_t room_to_populate() const;
  // How much may be touched before the kernel kills a process. Reads /proc.
  uint64_t room_to_touch() const;

 private:
  std::atomic<uint64_t> total_{0};
  uint64_t machine_ GUARDED_BY(growth_lock) = 0;
  std::atomic<uint64_t> cap_{0};
};

// In a small control group a share is too little for what a process has besides its heap: text,
// stacks, page tables, the engine's metadata.
inline constexpr uint64_t kProcessReserve = uint64_t{8} << 20;

}  // namespace rdmalloc
