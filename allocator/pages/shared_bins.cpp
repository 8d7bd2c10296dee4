#include "allocator/pages/shared_bins.h"

#include "allocator/os/processor_lock.h"

namespace rdmalloc {

bool SharedBins::Bin::lock(bool patient) {
  constexpr int kTries = 64;
  for (int i = 0; taken.load(std::memory_order_relaxed) != 0 ||
                  taken.exchange(1, std::memory_order_acquire) != 0;
       ++i) {
    if (i < kTries) continue;
    if (!patient) return false;
    os::wait_for_holder(i - kTries);
  }
  return true;
}

bool SharedBins::give(CachedBlock block, size_t most) {
  const size_t kept = kept_.load(std::memory_order_relaxed);
  Bin& into = bins_[BlockClasses::of(block.pages)];
  if ((kept + block.pages > most && kept != 0) || !into.lock(false)) return false;
  const Blocks::Place place = into.bin.place_for(block);
  if (!place.is_none()) {
    into.bin.add(place);
    kept_.fetch_add(block.pages, std::memory_order_relaxed);
  }
  into.unlock();
  return !place.is_none();
}

void SharedBins::lock_all() {
  for (Bin& bin : bins_) bin.lock(true);
}

void SharedBins::unlock_all() {
  for (Bin& bin : bins_) bin.unlock();
}

}  // namespace rdmalloc
