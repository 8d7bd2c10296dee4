// The registrations of one domain, by region: the array that a lookup reads.
//
// Takes no lock. Any thread, also inside malloc, and also while the domain is being closed: the
// table is made when the domain is first opened, and kept. In a child of fork it is empty.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "allocator/pages/region_table.h"
#include "regcache/domain/key_entry.h"
#include "regcache/thread_counter.h"

namespace rdmalloc {

class KeyTable {
 public:
  constexpr KeyTable() = default;
  KeyTable(const KeyTable&) = delete;
  KeyTable& operator=(const KeyTable&) = delete;

  // Makes the table, once. False: there is no memory. By one thread at a time.
  bool make(const RegionTable& regions, const Window& window);

  // A hit: the key of a region that is one memory region (MR), and covers the range, which has no
  // hole and is no longer than a stretch.
  bool find(const void* address, size_t length, rdm_mr* out) const;
  // The same in the range's region, where the caller knows that the range has no hole.
  bool find_in(const Region& region, uintptr_t at, size_t length, rdm_mr* out) const {
    return read(entry_of(region), at, length, out);
  }

  KeyEntry& entry_of(const Region& region) const { return entries_[region.index + size_t{1}]; }
  bool is_in_window(const void* address) const {
    return reinterpret_cast<uintptr_t>(address) - window_base_ < window_size_;
  }

  // In a child of fork.
  void clear(const RegionTable& regions);

  // Counts the MRs. False: an entry contradicts itself. For tests, while nobody registers.
  bool validate(const RegionTable& regions, size_t* count) const;

 private:
  friend struct InlineLayout;  // domain.cpp

  // Of at least one byte that is not below the entry's region.
  static bool read(const KeyEntry& entry, uintptr_t at, size_t length, rdm_mr* out);

  // What a hit reads: include/rdmalloc/inline.h reads it, too.
  uintptr_t window_base_ = 0;
  size_t window_size_ = 0;
  const std::atomic<uint16_t>* by_stretch_ = nullptr;
  KeyEntry* entries_ = nullptr;  // by region index + 1; the first stays empty
};

[[gnu::always_inline]] inline bool KeyTable::find(const void* address, size_t length,
                                                  rdm_mr* out) const {
  const uintptr_t at = reinterpret_cast<uintptr_t>(address);
  const uintptr_t offset = at - window_base_;
  if (offset >= window_size_) [[unlikely]]
    return false;
  const uint16_t slot =
      by_stretch_[offset >> RegionTable::kStretchShift].load(std::memory_order_acquire);
  // A longer range than a stretch may reach into one of which by_stretch_ says nothing here. A
  // length of zero wraps around, and fails the same test.
  if ((length - 1) >> RegionTable::kStretchShift != 0) [[unlikely]]
    return false;
  return read(entries_[slot], at, length, out);
}

[[gnu::always_inline]] inline bool KeyTable::read(const KeyEntry& entry, uintptr_t at,
                                                  size_t length, rdm_mr* out) {
  const size_t registered = entry.length.load(std::memory_order_acquire);
  const uintptr_t base = entry.base.load(std::memory_order_relaxed);
  if (at - base + length > registered) [[unlikely]]
    return false;
  // Last, so that all of this fits into registers that need not be saved (bench_lookup).
  LookupCounter::Place* const place = LookupCounter::place();
  if (place == nullptr) [[unlikely]]
    return false;
  out->base = reinterpret_cast<void*>(base);
  out->length = registered;
  const uint64_t keys = entry.keys.load(std::memory_order_relaxed);
  __builtin_memcpy(&out->lkey, &keys, sizeof keys);
  out->handle = entry.handle.load(std::memory_order_relaxed);
  LookupCounter::add_one(place);
  return true;
}

}  // namespace rdmalloc
