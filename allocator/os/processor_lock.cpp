#include "allocator/os/processor_lock.h"

#include "allocator/os/confinement.h"
#include "allocator/os/futex.h"
#include "allocator/os/process_barrier.h"
#include "allocator/os/relax.h"

namespace rdmalloc::os {

constinit std::atomic<ptrdiff_t> sequences_at{0};

namespace {

// No sequence begins any more, but one may be under way.
constinit std::atomic<bool> is_stopping{false};

bool may_be_under_way() { return sequences_at.load() != 0 || is_stopping.load(); }

// Waits until no sequence that has begun is under way: on that processor, or on all.
void wait_for_sequences_on(int processor) {
  if (!may_be_under_way() || restart_barrier(processor)) return;
  // Forbidden by a filter that we have not heard of. A sequence has a dozen instructions: after
  // this time none that was under way still is, and no more will begin.
  constexpr uint64_t kLongAfterNs = 10'000'000;
  is_stopping = true;
  sequences_at = 0;
  sleep_for(kLongAfterNs);
  is_stopping = false;
}

}  // namespace

void enable_sequences() {
  find_processor_number();
  const bool are_used =
      RDM_SEQUENCES && processor_number_at != 0 && !is_confined() && enable_restart_barrier();
  sequences_at = are_used ? processor_number_at : 0;
}

void stop_sequences() {
  if (!may_be_under_way()) return;
  is_stopping = true;
  sequences_at = 0;
  wait_for_sequences_on(kAllProcessors);
  is_stopping = false;
}

void renew_sequences() {
  is_stopping = false;
  if (sequences_at.load() != 0 && !enable_restart_barrier()) sequences_at = 0;
}

void wait_for_holder(int tries) {
  constexpr int kYields = 64;
  constexpr uint64_t kPauseNs = 50'000;
  if (tries >= kYields || !yield()) sleep_for(kPauseNs);
}

bool ProcessorLock::change(size_t processor, const Change& change) {
  const ptrdiff_t at = sequences_at.load(std::memory_order_relaxed);
  if (at == 0 || is_closed()) return change_by_lock(change);
  return change.fills ? change_by_sequence<true>(at, processor, change)
                      : change_by_sequence<false>(at, processor, change);
}

bool ProcessorLock::change_by_lock(const Change& change) {
  if (!try_lock()) return false;
  const bool is_as_seen =
      __atomic_load_n(change.word, __ATOMIC_RELAXED) == change.seen &&
      (change.fills || __atomic_load_n(change.slot, __ATOMIC_RELAXED) == change.value);
  if (is_as_seen) {
    __atomic_store_n(change.slot, change.value, __ATOMIC_RELAXED);
    __atomic_store_n(change.word, change.word_new, __ATOMIC_RELAXED);
    add(change.to_total);
  }
  unlock();
  return is_as_seen;
}

// A thread that has the lock, and then sees that it is fenced, knows that no sequence is under way:
// one that begins later sees that the lock is taken.
bool ProcessorLock::try_lock() {
  if (taken_.exchange(1) != 0) return false;
  if (fenced_.load() != 0 || !may_be_under_way()) return true;
  unlock();
  return false;
}

void ProcessorLock::lock() {
  for (int i = 0; !try_lock(); ++i) wait_for_holder(i);
}

void ProcessorLock::close(size_t processor) {
  begin_to_close();
  wait_for_sequences_on(static_cast<int>(processor));
  end_closing();
}

void ProcessorLock::wait_for_sequences() { wait_for_sequences_on(kAllProcessors); }

void ProcessorLock::open() {
  fenced_.fetch_sub(1);
  closed_.fetch_sub(1);
}

void ProcessorLock::forget_others() {
  fenced_ = 1;
  closed_ = 1;
}

}  // namespace rdmalloc::os
