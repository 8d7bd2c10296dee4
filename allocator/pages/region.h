// A region: a contiguous part of the window that was acquired, placed, pinned and published as a
// whole. Its address and length never change, and the facts about it stay with it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "allocator/os/memory.h"

namespace rdmalloc {

inline void* pointer(uintptr_t address) { return reinterpret_cast<void*>(address); }

enum class RegionKind : uint8_t {
  kPinned,    // locked: each page stays once it is faulted in
  kOverflow,  // beyond the budget: ordinary memory without promises
  kSparse,    // for one large zeroed request: purged when freed
};

// What the pages are used for. Only gathering moves free pages from one use to another, and never
// those of exposed regions: a remote key opens its whole region.
enum class RegionUse : uint8_t { kExtents, kBlocks, kExposed };
inline constexpr size_t kRegionUses = 3;

// The facts about a region. Except for the guarded ones, they stay the same for its life.
struct RegionFacts {
  uintptr_t base = 0;
  size_t length = 0;
  // The bytes between were never handed out, and still read as zero. Guarded by the depot's lock.
  uintptr_t fresh_from = 0;
  uintptr_t fresh_to = 0;
  int16_t node = 0;  // NUMA node of the thread that asked for it
  RegionKind kind = RegionKind::kOverflow;
  os::PageKind page_kind = os::PageKind::kBase;
  RegionUse use = RegionUse::kExtents;
  bool locked = false;  // by this process: false again in a forked child
  bool sealed = false;
  bool gathered = false;           // of pages that were moved here, and perhaps new ones
  bool by_touch = false;           // pages are to lie where they are touched first
  bool exposed = false;            // holds what was asked for with RDM_EXPOSED, and nothing else
  mutable bool populated = false;  // all of its pages are populated, or are being populated

  // The same, read without the lock, for callers that only need a guess.
  struct Range {
    uintptr_t from;
    uintptr_t to;
  };
  Range fresh() const {
    return {__atomic_load_n(&fresh_from, __ATOMIC_RELAXED),
            __atomic_load_n(&fresh_to, __ATOMIC_RELAXED)};
  }

  // The kind that the budget counts it as.
  RegionKind charged_as() const {
    const bool is_as_made = kind == RegionKind::kSparse || (kind == RegionKind::kPinned && locked);
    return is_as_made ? kind : RegionKind::kOverflow;
  }

  uintptr_t end() const { return base + length; }
  // Also for those who may meet a slot that its next region is about to have.
  bool contains(uintptr_t address) const {
    return address - __atomic_load_n(&base, __ATOMIC_RELAXED) <
           __atomic_load_n(&length, __ATOMIC_RELAXED);
  }
};

// Word by word, because a reader may copy the facts of a slot while its next region replaces them:
// see RegionTable::copy(). Ordered, so that one who sees a fact of the next region no longer finds
// the old one in the table.
inline void copy_facts(RegionFacts* to, const RegionFacts& from) {
  using Word [[gnu::may_alias]] = uint64_t;
  static_assert(std::is_trivially_copyable_v<RegionFacts> &&
                sizeof(RegionFacts) % sizeof(Word) == 0);
  auto* const target = reinterpret_cast<Word*>(to);
  const auto* const source = reinterpret_cast<const Word*>(&from);
  for (size_t i = 0; i < sizeof(RegionFacts) / sizeof(Word); ++i) {
    __atomic_store_n(&target[i], __atomic_load_n(&source[i], __ATOMIC_ACQUIRE), __ATOMIC_RELEASE);
  }
}

// For whom all of a region's pages are populated.
enum class PagesFor : uint8_t {
  kLater,  // nobody yet: what other processes need comes first
  kNow     // a device that is about to use them
};

struct Region : RegionFacts {
  // Bytes that lost their pages. Changed under the growth lock, read from anywhere.
  size_t retired() const {
    const size_t bytes = __atomic_load_n(&retired_, __ATOMIC_SEQ_CST);
    return bytes == kAll ? length : bytes;
  }
  void set_retired(size_t bytes) {
    __atomic_store_n(&retired_, bytes == length ? kAll : bytes, __ATOMIC_SEQ_CST);
  }
  // Nothing else but the index may be read of an empty region, because its slot is reused.
  bool is_empty() const { return __atomic_load_n(&retired_, __ATOMIC_SEQ_CST) == kAll; }

  // Replaces it by the slot's next region, which nobody takes for whole until the last step.
  void replace(const Region& next) {
    copy_facts(this, next);
    set_retired(next.retired_);
  }

 private:
  static constexpr size_t kAll = SIZE_MAX;
  size_t retired_ = 0;

 public:
  // Of its slot, so it may be read of an empty region, too. Declared last: the compiler may put
  // what follows the facts into their padding, which replace() writes.
  uint16_t index = 0;
};

}  // namespace rdmalloc
