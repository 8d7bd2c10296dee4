#include "allocator/pages/cpu_cache.h"

#include "allocator/os/clock.h"

namespace rdmalloc {

// A thread that loses its processor makes one slow round, so only several in a row count. Of the
// round's frees, those that neither are in the cache now nor went where others get them were
// followed by a malloc here.
void CpuCache::end_round() {
  constexpr uint64_t kSlowNs = 4000;  // from one block to the next
  const uint64_t now = os::now_ns();
  const uint64_t began = __atomic_exchange_n(&round_began_, now, __ATOMIC_RELAXED);
  const bool is_slow = now - began > kFreesPerRound * kSlowNs;
  const uint32_t slow_rounds = load(slow_rounds_);
  store(slow_rounds_, !is_slow ? 0 : slow_rounds < kSlowRounds ? slow_rounds + 1 : slow_rounds);
  const ptrdiff_t total = lock_.total();
  const ptrdiff_t then = __atomic_exchange_n(&total_then_, total, __ATOMIC_RELAXED);
  const ptrdiff_t more = Bin::blocks_of(total) - Bin::blocks_of(then);
  const ptrdiff_t elsewhere = load(elsewhere_);
  const ptrdiff_t mallocs = load(misses_) + kFreesPerRound - more - elsewhere;
  store(use_, mallocs < kFewMallocs               ? kHandedOn
              : load(slow_rounds_) == kSlowRounds ? kSlow
                                                  : kFast);
  store(misses_, 0);
  store(elsewhere_, 0);
  store(frees_, 0);
}

void CpuCache::note_fork_child() {
  lock_.forget_others();
  ptrdiff_t total = 0;
  for (const Bin& bin : bins_) total += bin.total();
  lock_.set_total(total);
}

CpuCache::Found CpuCache::larger(size_t pages) const {
  for (size_t i = BlockClasses::of(pages) + 1; i < kBins; ++i) {
    const Bin::Place place = bins_[i].find_any();
    if (!place.is_none()) return {i, place};
  }
  return {};
}

Attempt CpuCache::take_larger(size_t processor, size_t pages, CachedBlock& block) {
  const Found found = larger(pages);
  if (found.place.is_none()) return Attempt::kImpossible;
  block = found.place.block;
  const bool is_taken = lock_.change(processor, bins_[found.bin].taking(found.place));
  return is_taken ? Attempt::kDone : Attempt::kInterrupted;
}

// No pause between the tries: with one, threads that empty each other's caches get the lock so
// often that two took twice as long (bench/README.md).
CachedBlock CpuCache::take_any(Bin& bin, bool patient) {
  constexpr int kTries = 64;
  for (int i = 0; patient || i < kTries; ++i) {
    const Bin::Place place = bin.find_any();
    if (place.is_none()) break;
    if (lock_.change_by_lock(bin.taking(place))) return place.block;
    if (i >= kTries) os::wait_for_holder(i - kTries);
  }
  return {};
}

CachedBlock CpuCache::take_own(size_t processor, Bin& bin) {
  const Bin::Place place = bin.find_any();
  const bool is_taken = !place.is_none() && lock_.change(processor, bin.taking(place));
  return is_taken ? place.block : CachedBlock{};
}

}  // namespace rdmalloc
