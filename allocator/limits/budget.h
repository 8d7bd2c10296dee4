// How much may be held and pinned. Resolves the options against the limits at start, checks what is
// available before memory is populated, and keeps the sums. The memlock limit is looked at again
// whenever memory is to be pinned, because the program, or prlimit, may change it.
//
// Runs inside malloc; anybody may read the sums.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "allocator/limits/machine_ledger.h"
#include "allocator/limits/options.h"
#include "allocator/mutex.h"
#include "allocator/os/limits.h"
#include "allocator/pages/region.h"

namespace rdmalloc {

// Which limit keeps more memory from being pinned.
enum class LimitedBy : uint8_t { kCap, kMemlock, kAvailable, kMachine };

const char* name(LimitedBy by);

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
    return amount.resolve(memory(), memlock_.load(std::memory_order_relaxed));
  }

  // Asks to pin a region of `want` bytes, of which `need` are needed at once; the grant may shrink
  // to `need`. Never above the memory cap. If the answer is known, it refuses at once; otherwise it
  // may read /proc.
  Grant ask_pinned(size_t need, size_t want) REQUIRES(growth_lock);

  // The same for memory that is not pinned because no more can be. Refuses if the options are
  // strict. Reads /proc.
  Grant ask_overflow(size_t need, size_t want) const REQUIRES(growth_lock);

  // Asks for memory whose pages are faulted in when touched. The user's memory cap limits it.
  // Without a cap, a request is refused only where another malloc's would be, or if nothing is
  // left: programs request much that they never touch, but beyond a limit the kernel kills the
  // process that touches.
  Grant ask_unpinned(RegionKind kind, size_t need, size_t want) const REQUIRES(growth_lock);

  // How much all threads that are populating may populate together now. Reads /proc. Any thread,
  // under any lock or none.
  uint64_t room_to_populate() const;

  // The same for pages that nobody needs yet: of a control group in which other processes have a
  // heap too, this process gets at most an even share for them. Any thread may read the ledger's
  // file; the ledger's other members are not used.
  uint64_t room_ahead() const NO_THREAD_SAFETY_ANALYSIS;

  // Announces pages that nobody needs yet to the processes that share a limit with this one.
  void note_ahead() REQUIRES(growth_lock);

  void charge(RegionKind kind, size_t bytes) REQUIRES(growth_lock);

  // Memory that was charged is no longer held.
  void release(RegionKind kind, size_t bytes) REQUIRES(growth_lock);

  // Memory that was pinned is still held, but no longer pinned.
  void note_unlocked(size_t bytes) REQUIRES(growth_lock);

  // Looks at the memlock limit, as asking does: for whoever reads pin_limit() before asking.
  void look_at_memlock() REQUIRES(growth_lock);

  // The kernel refused to lock what was granted. If other code in this process uses up the limit,
  // each grant checks from now on how much is locked. If that does not explain the refusal, no more
  // is granted than is pinned now.
  void note_refusal(size_t bytes) REQUIRES(growth_lock);

  // What was granted has been charged, or will not be: tells the ledger what is pinned, so that the
  // machine's other processes may use the rest.
  void record_pinned() REQUIRES(growth_lock) { ledger_.record_pinned({pinned(), held()}); }

  // In a child of fork: locks are not inherited, the memory is.
  void note_fork_child() REQUIRES(growth_lock);

  size_t held() const { return held_.load(std::memory_order_relaxed); }
  size_t pinned() const { return pinned_.load(std::memory_order_relaxed); }
  size_t overflow() const { return overflow_.load(std::memory_order_relaxed); }
  size_t sparse() const { return sparse_.load(std::memory_order_relaxed); }
  size_t peak_pinned() const { return peak_pinned_.load(std::memory_order_relaxed); }
  uint64_t pin_limit() const { return pin_limit_.load(std::memory_order_relaxed); }
  uint64_t memory_cap() const { return memory_cap_.load(std::memory_order_relaxed); }
  uint64_t memory() const { return memory_.load(std::memory_order_relaxed); }
  LimitedBy limited_by() const { return limited_by_.load(std::memory_order_relaxed); }
  const MachineLedger& ledger() const REQUIRES(growth_lock) { return ledger_; }

 private:
  uint64_t room_to_pin(size_t want) REQUIRES(growth_lock);
  uint64_t room_to_touch() const;
  uint64_t reserve() const;
  void set_memlock(uint64_t memlock) REQUIRES(growth_lock);
  void note_memlock(const os::LockLimit& limit) REQUIRES(growth_lock);
  void limit_pins(uint64_t lockable) REQUIRES(growth_lock);
  void set_limits(uint64_t memory, const os::LockLimit& limit) REQUIRES(growth_lock);
  void look_at_machine(const os::Cgroup& group) REQUIRES(growth_lock);
  void look_at_group(const os::Cgroup& group) REQUIRES(growth_lock);
  uint64_t ask_machine(uint64_t need, uint64_t want) REQUIRES(growth_lock);
  void look_at_locked() REQUIRES(growth_lock);

  // Below this the available memory is not checked: reading it costs more than a small process
  // spends on its whole heap.
  static constexpr size_t kUncheckedBytes = size_t{8} << 20;

  const Options* options_ = nullptr;
  bool has_looked_ GUARDED_BY(growth_lock) = false;
  std::atomic<uint64_t> memory_{0};                // RAM, or the control group's limit
  std::atomic<uint64_t> memlock_{0};               // RLIMIT_MEMLOCK, or no limit with CAP_IPC_LOCK
  uint64_t soft_ GUARDED_BY(growth_lock) = 0;      // RLIMIT_MEMLOCK when it was looked at last
  uint64_t machine_ = 0;                           // RAM
  std::atomic<uint64_t> memory_cap_{0};            // most that is held, or pinned
  uint64_t lockable_ GUARDED_BY(growth_lock) = 0;  // memlock_ less the headroom
  Amount own_cap_;
  uint64_t share_of_machine_ = os::kNoLimit;
  uint64_t cap_ = 0;                        // most that is pinned, whatever the kernel allows
  uint64_t group_cap_ = 0;                  // what a control group's processes share; 0: nothing
  mutable std::atomic<size_t> sharers_{0};  // how many shared it lately; 0: not known
  MachineLedger ledger_ GUARDED_BY(growth_lock);
  Amount headroom_;
  size_t unchecked_until_ GUARDED_BY(growth_lock) = kUncheckedBytes;  // held bytes
  size_t unchecked_step_ GUARDED_BY(growth_lock) = 0;  // what was just checked leaves so much
  std::atomic<uint64_t> pin_limit_{0};                 // most that is pinned
  std::atomic<size_t> held_{0};
  std::atomic<size_t> pinned_{0};
  std::atomic<size_t> overflow_{0};
  std::atomic<size_t> sparse_{0};
  std::atomic<size_t> peak_pinned_{0};
  LimitedBy cap_by_ = LimitedBy::kCap;                                  // where cap_ comes from
  LimitedBy pin_limited_by_ GUARDED_BY(growth_lock) = LimitedBy::kCap;  // and pin_limit_
  std::atomic<LimitedBy> limited_by_{LimitedBy::kCap};
  bool right_counts_ GUARDED_BY(growth_lock) = true;  // CAP_IPC_LOCK, as far as is known
  bool is_capped_ = false;  // by the user: memory_cap_ is most that is held
  bool strict_ = false;
  bool refused_ GUARDED_BY(growth_lock) = false;
  bool refused_for_good_ GUARDED_BY(growth_lock) = false;
};

}  // namespace rdmalloc
