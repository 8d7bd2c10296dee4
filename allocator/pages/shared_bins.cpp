#include "allocator/pages/shared_bins.h"

#include <cstdlib>

#include "allocator/os/processor_lock.h"

namespace rdmalloc {
namespace {

// A bin adds its changes to the sum when they are more than this part of it, or it is empty: so the
// sum is 0 when all are.
constexpr ptrdiff_t kShareApart = 64;

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
  ptrdiff_t pages = sum();
  for (const Bin& bin : bins_) pages += bin.apart.load(std::memory_order_relaxed);
  return pages < 0 ? 0 : static_cast<size_t>(pages);
}

void SharedBins::note(Bin& bin, ptrdiff_t pages) {
  const ptrdiff_t apart = bin.apart.load(std::memory_order_relaxed) + pages;
  const bool is_told = std::abs(apart) > sum() / kShareApart || bin.bin.is_empty();
  if (is_told && apart != 0) sum_.fetch_add(apart, std::memory_order_relaxed);
  bin.apart.store(is_told ? 0 : apart, std::memory_order_relaxed);
}

bool SharedBins::give(CachedBlock block, size_t most) {
  const auto pages = static_cast<ptrdiff_t>(block.pages);
  const ptrdiff_t kept = sum();
  Bin& into = bins_[BlockClasses::of(block.pages)];
  if ((kept + pages > static_cast<ptrdiff_t>(most) && kept > 0) || !into.lock(false)) return false;
  const Blocks::Place place = into.bin.place_for(block);
  if (!place.is_none()) {
    into.bin.add(place);
    note(into, pages);
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
