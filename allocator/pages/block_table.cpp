#include "allocator/pages/block_table.h"

#include "allocator/os/memory.h"

namespace rdmalloc {
namespace {

// The table is backed in steps, downwards as the window is carved: one call covers 32 MiB of window
// or more.
constexpr size_t kStep = size_t{64} << 10;

}  // namespace

Status BlockTable::boot() {
  const size_t bytes = os::align_up(window_.size() / os::page_size() * sizeof(Word), kStep);
  void* reserved = os::reserve(bytes, os::page_size());
  if (reserved == nullptr) return Status::kNoMemory;
  words_ = static_cast<std::atomic<Word>*>(reserved);
  covered_from_ = reinterpret_cast<uintptr_t>(reserved) + bytes;
  return Status::kOk;
}

bool BlockTable::cover(const Region& region) {
  if (region.use == RegionUse::kExtents) return true;
  const uintptr_t base = region.base;
  const auto table = reinterpret_cast<uintptr_t>(words_);
  const auto lowest = table + os::align_down(reinterpret_cast<uintptr_t>(&at(base)) - table, kStep);
  if (lowest < covered_from_) {
    const size_t bytes = covered_from_ - lowest;
    if (covered_bytes_ == 0) {
      os::ask_for_base_pages(words_, reinterpret_cast<uintptr_t>(covered_from_) - table);
    }
    if (!ok(os::open(reinterpret_cast<void*>(lowest), bytes, os::PageKind::kBase))) return false;
    covered_from_ = lowest;
    __atomic_fetch_add(&covered_bytes_, bytes, __ATOMIC_RELAXED);
  }
  if (base < lowest_.load(std::memory_order_relaxed))
    lowest_.store(base, std::memory_order_release);
  return true;
}

}  // namespace rdmalloc
