#include "allocator/pages/cpu_caches.h"

#include <algorithm>

#include "allocator/os/clock.h"
#include "allocator/os/confinement.h"
#include "allocator/os/futex.h"

namespace rdmalloc {

size_t CpuCaches::caches_of(size_t window) {
  size_t count = kMostProcessors;
  while (count > 1 && count * sizeof(Processor) > window / kShareOfWindow) count /= 2;
  return count;
}

Status CpuCaches::boot(size_t window) {
  os::find_processor_number();
  set_held(0);
  processors_ = static_cast<Processor*>(os::map_table(table_bytes(window)));
  mask_ = caches_of(window) - 1;
  return processors_ == nullptr ? Status::kNoMemory : Status::kOk;
}

// Called once per processor, under the processor's lock.
void CpuCaches::note_use(Processor& processor) {
  processor.was_used = 1;
  const size_t needed = static_cast<size_t>(&processor - processors_) + 1;
  size_t used = used_.load(std::memory_order_relaxed);
  while (used < needed && !used_.compare_exchange_weak(used, needed, std::memory_order_acq_rel)) {
  }
}

// Called under the processor's lock. A thread that loses its processor makes one slow round, so
// only several in a row count.
void CpuCaches::end_round(Processor& processor) {
  constexpr uint64_t kSlowNs = 4000;  // from one block to the next
  const uint64_t now = os::now_ns();
  const bool is_slow = now - processor.round_began > kGivenPerRound * kSlowNs;
  if (!is_slow) {
    processor.slow_rounds = 0;
  } else if (processor.slow_rounds < kSlowRounds) {
    ++processor.slow_rounds;
  }
  processor.given = 0;
  processor.round_began = now;
}

CpuCaches::Block CpuCaches::take_larger(size_t pages) {
  if (!has_bin(pages)) return {};
  Processor& here = processors_[os::current_processor() & mask_];
  if (!here.try_lock()) return {};
  Block block;
  for (size_t i = bin_of(pages) + 1; i < kBins && block.pages == 0; ++i) {
    Bin& bin = here.bins[i];
    if (bin.count != 0) block = bin.take_newest();
  }
  here.keep(here.kept - block.pages);
  here.unlock();
  return block;
}

void CpuCaches::set_held(size_t bytes) {
  most_kept_.store(std::max(bytes / 2, kLeastKept) / os::page_size(), std::memory_order_relaxed);
  most_kept_slow_.store(bytes / 12 / os::page_size(), std::memory_order_relaxed);
}

size_t CpuCaches::bytes() const {
  size_t pages = 0;
  for (size_t i = 0; i < used_.load(std::memory_order_acquire); ++i) {
    pages += __atomic_load_n(&processors_[i].kept, __ATOMIC_RELAXED);
  }
  return pages * os::page_size();
}

// A holder that runs is done in a moment; one that does not run may take long.
bool CpuCaches::lock(Processor& processor, bool patient) {
  constexpr int kTries = 64;
  constexpr int kYields = kTries + 64;
  constexpr uint64_t kPauseNs = 50'000;
  for (int i = 0; processor.is_locked() || !processor.try_lock(); ++i) {
    if (i < kTries) continue;
    if (!patient) return false;
    // The holder may be a thread that this thread's priority keeps from running.
    if (i < kYields && !os::is_confined()) {
      sched_yield();
    } else {
      os::sleep_for(kPauseNs);
    }
  }
  return true;
}

void CpuCaches::lock_all() {
  locked_ = used_.load(std::memory_order_acquire);
  for (size_t i = 0; i < locked_; ++i) lock(processors_[i], true);
}

// Skips processors first used since lock_all(). In the child their bins may stay locked; those
// processors then have no cache.
void CpuCaches::unlock_all() {
  for (size_t i = 0; i < locked_; ++i) processors_[i].unlock();
}

}  // namespace rdmalloc
