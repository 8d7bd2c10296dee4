// How much the kernel lets this process lock: RLIMIT_MEMLOCK less the headroom, or no limit with
// CAP_IPC_LOCK, as far as that is known. The program, or prlimit, may change the limit at any time.
//
// Runs inside malloc, for PinLimit.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "allocator/limits/charges.h"
#include "allocator/limits/memory_limit.h"
#include "allocator/limits/options.h"
#include "allocator/mutex.h"
#include "allocator/os/limits.h"

namespace rdmalloc {

class Lockable {
 public:
  constexpr Lockable(const Charges& charges, const MemoryLimit& memory)
      : charges_(charges), memory_(memory) {}
  Lockable(const Lockable&) = delete;
  Lockable& operator=(const Lockable&) = delete;

  // `headroom`: what is left to the rest of the process.
  void boot(Amount headroom) { headroom_ = headroom; }

  void set(const os::LockLimit& limit) REQUIRES(growth_lock);
  // True if the limit is another one than before; refusals are then forgotten.
  bool update(const os::LockLimit& limit) REQUIRES(growth_lock);
  // True if the soft limit was changed since it was looked at last: one system call. The capability
  // comes and goes without that: that it came is seen when there is no room, that it went by a
  // refusal.
  bool has_other_soft_limit() const REQUIRES(growth_lock);

  // The kernel refused to lock what was granted: from now on, what other code in this process has
  // locked counts.
  void note_refusal() REQUIRES(growth_lock);
  // Whether nothing explains the refusal, so that no more can be locked.
  void set_refused_for_good(bool refused) REQUIRES(growth_lock) { is_refused_for_good_ = refused; }
  bool is_refused() const REQUIRES(growth_lock) { return is_refused_; }
  bool is_refused_for_good() const REQUIRES(growth_lock) { return is_refused_for_good_; }

  // What the heap may lock in all. After a refusal, reads /proc.
  uint64_t bytes() const REQUIRES(growth_lock);

  // RLIMIT_MEMLOCK, or no limit with CAP_IPC_LOCK. Anybody may read it.
  uint64_t memlock() const { return memlock_.load(std::memory_order_relaxed); }

 private:
  const Charges& charges_;
  const MemoryLimit& memory_;
  Amount headroom_;
  std::atomic<uint64_t> memlock_{0};
  uint64_t soft_ GUARDED_BY(growth_lock) = 0;         // when it was looked at last
  bool right_counts_ GUARDED_BY(growth_lock) = true;  // CAP_IPC_LOCK, as far as is known
  bool is_refused_ GUARDED_BY(growth_lock) = false;
  bool is_refused_for_good_ GUARDED_BY(growth_lock) = false;
};

}  // namespace rdmalloc
