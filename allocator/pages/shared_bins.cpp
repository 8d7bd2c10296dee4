#include "allocator/pages/shared_bins.h"

#include "allocator/os/processor_lock.h"

namespace rdmalloc {
namespace {

// A bin that has been given this part of what all may keep finds out what they do.
constexpr size_t kBetweenSums = 64;

}  // namespace

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

size_t SharedBins::kept() const {
  size_t sum = 0;
  for (const Bin& bin : bins_) sum += bin.kept.load(std::memory_order_relaxed);
  return sum;
}

size_t SharedBins::find_kept() {
  const size_t now = kept();
  kept_lately_.store(now, std::memory_order_relaxed);
  return now;
}

bool SharedBins::has_room(size_t pages, size_t most) {
  if (kept_lately_.load(std::memory_order_relaxed) + pages <= most) return true;
  const size_t now = find_kept();
  return now + pages <= most || now == 0;
}

bool SharedBins::give(CachedBlock block, size_t most) {
  Bin& into = bins_[BlockClasses::of(block.pages)];
  if (!has_room(block.pages, most) || !into.lock(false)) return false;
  const Blocks::Place place = into.bin.place_for(block);
  if (!place.is_none()) {
    into.bin.add(place);
    into.note(into.kept.load(std::memory_order_relaxed) + block.pages);
    into.given += block.pages;
    if (into.given > most / kBetweenSums) {
      into.given = 0;
      find_kept();
    }
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
