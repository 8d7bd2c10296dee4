#include "allocator/os/processor_lock.h"

#include "allocator/os/confinement.h"
#include "allocator/os/futex.h"
#include "allocator/os/process_barrier.h"

namespace rdmalloc::os {

constinit std::atomic<bool> locks_restart{false};
constinit std::atomic<uint32_t> locks_closed{0};

namespace {

#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
constexpr bool kCanRestart = true;
#else
constexpr bool kCanRestart = false;
#endif

}  // namespace

void enable_processor_locks() {
  find_processor_number();
  locks_closed.store(0, std::memory_order_relaxed);
  locks_restart.store(
      kCanRestart && processor_number_at != 0 && !is_confined() && enable_restart_barrier(),
      std::memory_order_relaxed);
}

void renew_processor_locks() {
  locks_closed.store(1, std::memory_order_relaxed);
  if (locks_restart.load(std::memory_order_relaxed)) {
    locks_restart.store(enable_restart_barrier(), std::memory_order_relaxed);
  }
}

void close_processor_locks() {
  locks_closed.fetch_add(1, std::memory_order_seq_cst);
  if (!locks_restart.load(std::memory_order_relaxed) || restart_barrier()) return;
  // Forbidden by a filter that we have not heard of. A sequence has a dozen instructions: none that
  // was under way still is after this time, and no more will begin.
  constexpr uint64_t kLongAfterNs = 10'000'000;
  locks_closed.fetch_add(1, std::memory_order_relaxed);
  sleep_for(kLongAfterNs);
  locks_restart.store(false, std::memory_order_relaxed);
}

void open_processor_locks() { locks_closed.fetch_sub(1, std::memory_order_release); }

void stop_restarting() {
  close_processor_locks();
  locks_restart.store(false, std::memory_order_relaxed);
}

}  // namespace rdmalloc::os
