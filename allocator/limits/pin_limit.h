// The most that may be pinned, and where that limit comes from: the user's cap, this process's
// share of the machine's, or what the kernel lets it lock. What is pinned when a limit is lowered
// stays pinned: then the limit is that.
//
// Runs inside malloc; anybody may read the limit.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "allocator/limits/lockable.h"

namespace rdmalloc {

// Which limit keeps more memory from being pinned.
enum class LimitedBy : uint8_t { kCap, kMemlock, kAvailable, kMachine };

const char* name(LimitedBy by);

class PinLimit {
 public:
  constexpr PinLimit(const Charges& charges, const MemoryLimit& memory)
      : charges_(charges), memory_(memory), lockable_(charges, memory) {}
  PinLimit(const PinLimit&) = delete;
  PinLimit& operator=(const PinLimit&) = delete;

  // Before there are threads.
  void boot(const Options& options);

  // The kernel's limit, as it was just read; the amount of memory may be another one, too.
  void set(const os::LockLimit& limit) REQUIRES(growth_lock);
  // This process's share of what may be pinned on the machine.
  void set_share(uint64_t bytes) REQUIRES(growth_lock);

  // Looks whether the program, or prlimit, changed the memlock limit: one system call.
  void look() REQUIRES(growth_lock);
  // The same, more closely, for what could keep `need` bytes from being pinned. May read /proc.
  void look_closely(size_t need) REQUIRES(growth_lock);

  // The kernel refused to lock what was granted. If other code in this process uses up the limit,
  // each grant checks from now on how much is locked. If that does not explain the refusal, no more
  // is granted than is pinned now.
  void note_refusal(size_t bytes) REQUIRES(growth_lock);

  // Nothing explains why the kernel refused.
  bool is_refused_for_good() const REQUIRES(growth_lock) { return lockable_.is_refused_for_good(); }

  // What happened when pinning was asked for last: this limit decided, or another one did.
  void note_own() REQUIRES(growth_lock) { limited_by_ = by_; }
  void note_other(LimitedBy by) REQUIRES(growth_lock) { limited_by_ = by; }

  uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  // How much more may be pinned.
  uint64_t left() const { return os::less(bytes(), charges_.pinned()); }
  LimitedBy limited_by() const { return limited_by_.load(std::memory_order_relaxed); }
  uint64_t memlock() const { return lockable_.memlock(); }

 private:
  void find() REQUIRES(growth_lock);

  const Charges& charges_;
  const MemoryLimit& memory_;
  Lockable lockable_;
  Amount cap_;
  uint64_t share_of_machine_ GUARDED_BY(growth_lock) = os::kNoLimit;
  std::atomic<uint64_t> bytes_{0};
  LimitedBy by_ GUARDED_BY(growth_lock) = LimitedBy::kCap;  // where bytes_ comes from
  std::atomic<LimitedBy> limited_by_{LimitedBy::kCap};
};

}  // namespace rdmalloc
