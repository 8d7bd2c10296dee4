// Who may have more memory, and whether it is pinned: compares what is held (Charges) with what may
// be held (MemoryLimit), what may be pinned (PinLimit), and what other processes leave of a limit
// that they share with this one (SharedLimit).
//
// Runs inside malloc. The memlock limit is looked at again whenever memory is to be pinned, because
// the program, or prlimit, may change it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "allocator/limits/charges.h"
#include "allocator/limits/memory_limit.h"
#include "allocator/limits/options.h"
#include "allocator/limits/pin_limit.h"
#include "allocator/limits/shared_limit.h"
#include "allocator/mutex.h"
#include "allocator/pages/region.h"

namespace rdmalloc {

struct Grant {
  size_t bytes = 0;  // 0: refused
  RegionKind kind = RegionKind::kOverflow;
};

class Budget {
 public:
  constexpr Budget() = default;
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;

  // To be called before there are threads. Of a process that stays small, nothing else reads the
  // limits: see look().
  void boot(const Options& options) NO_THREAD_SAFETY_ANALYSIS;

  // Reads the limits that boot() left out, because no small process comes near them: its control
  // group's, and whether it may lock without a limit. Called before more than a little is held, and
  // by whoever is about to report or to share them out.
  void look() REQUIRES(growth_lock);
  // boot() and look(), for whoever reads only the limits.
  void boot_and_look(const Options& options) NO_THREAD_SAFETY_ANALYSIS {
    boot(options);
    look();
  }

  // An option's amount in bytes; shares are of the memory found at boot, and of the memlock limit
  // that was found last.
  uint64_t resolve(Amount amount) const {
    return amount.resolve(memory_.total(), pin_limit_.memlock());
  }

  // Asks to pin a region of `want` bytes, of which `need` are needed at once; the grant may shrink
  // to `need`. Never above the memory cap. If the answer is known, it refuses at once; otherwise it
  // may read /proc. What is taken of a grant is charged, and then, or if nothing is, recorded
  // (SharedLimit::record_pinned).
  Grant ask_pinned(size_t need, size_t want) REQUIRES(growth_lock);

  // The same for memory that is not pinned because no more can be. Refuses if the options are
  // strict. Reads /proc.
  Grant ask_overflow(size_t need, size_t want) const REQUIRES(growth_lock);

  // Asks for memory whose pages are faulted in when touched. The user's memory cap limits it.
  // Without a cap, a request is refused only where another malloc's would be, or if nothing is
  // left: programs request much that they never touch, but beyond a limit the kernel kills the
  // process that touches.
  Grant ask_unpinned(RegionKind kind, size_t need, size_t want) const REQUIRES(growth_lock);

  // The kernel refused to lock what was granted.
  void note_refusal(size_t bytes) REQUIRES(growth_lock);

  // In a child of fork: locks are not inherited, the memory is.
  void note_fork_child() REQUIRES(growth_lock);

  Charges& charges() { return charges_; }
  const Charges& charges() const { return charges_; }
  const MemoryLimit& memory() const { return memory_; }
  PinLimit& pin_limit() { return pin_limit_; }
  const PinLimit& pin_limit() const { return pin_limit_; }
  SharedLimit& shared() { return shared_; }
  const SharedLimit& shared() const { return shared_; }

 private:
  void set_limits(uint64_t machine, uint64_t total, const os::LockLimit& limit)
      REQUIRES(growth_lock);
  uint64_t available(size_t want) REQUIRES(growth_lock);

  // Below this the available memory is not checked: reading it costs more than a small process
  // spends on its whole heap.
  static constexpr size_t kUncheckedBytes = size_t{8} << 20;

  const Options* options_ = nullptr;
  bool has_looked_ GUARDED_BY(growth_lock) = false;
  size_t unchecked_until_ GUARDED_BY(growth_lock) = kUncheckedBytes;  // held bytes
  Charges charges_;
  MemoryLimit memory_;
  PinLimit pin_limit_{charges_, memory_};
  SharedLimit shared_{charges_, memory_};
};

}  // namespace rdmalloc
