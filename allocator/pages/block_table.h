// The blocks of the page heap, by the page at which each starts: how many pages it has, and whether
// a program has it, a CPU cache, or nobody. So free() recognises a block without a lock, and tells
// a second free from the first.
//
// Each page has a word of eight bytes. A block has more than eight pages of 4 KiB, so the words of
// two blocks never share a cache line, and threads that work on blocks side by side do not disturb
// each other. With larger pages, a block may have only one.
//
// Read and written inside malloc. The word of a block belongs to the block's owner: the program's
// thread that has it, or the thread that took its pages out of a depot or a cache.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "allocator/os/memory.h"
#include "allocator/os/topology.h"
#include "allocator/pages/region.h"
#include "allocator/pages/two_ended_table.h"
#include "allocator/pages/window.h"
#include "allocator/status.h"

namespace rdmalloc {

class BlockTable {
 public:
  // The low half is the number of pages, 0 where no block starts.
  using Word = uint64_t;
  static constexpr Word kPages = UINT32_MAX;
  static constexpr Word kCached = Word{1} << 32;   // in a CPU cache, and nobody's
  static constexpr Word kApart = Word{1} << 33;    // goes back to its depot, never into a cache
  static constexpr Word kExposed = Word{1} << 34;  // of an exposed region
  // Above these: how many of its pages were not requested, because the block was reused for a
  // slightly smaller request.
  static constexpr unsigned kUnaskedShift = 35;

  static size_t pages_of(Word word) { return word & kPages; }
  static size_t asked_pages_of(Word word) { return (word & kPages) - (word >> kUnaskedShift); }
  static Word make(size_t pages, size_t asked, Word flags = 0) {
    return Word{pages} | Word{pages - asked} << kUnaskedShift | flags;
  }

  // The node of a block of several pages, as far as it is known, in the word of the block's second
  // page, where no block can start. os::kNoNode: not known.
  int node_of(uintptr_t address) const {
    return static_cast<int>(get(address + os::page_size()) >> kUnaskedShift) + os::kNoNode;
  }
  void set_node(uintptr_t address, int node) {
    set(address + os::page_size(),
        node == os::kNoNode ? 0 : kCached | static_cast<Word>(node + 1) << kUnaskedShift);
  }

  explicit constexpr BlockTable(const Window& window) : window_(window) {}
  BlockTable(const BlockTable&) = delete;
  BlockTable& operator=(const BlockTable&) = delete;

  // Reserves the table. Without a window it is empty. Before there are threads.
  Status boot() {
    const Status reserved = table_.boot(bytes(), TwoEndedTable::Rest::kUnreadable);
    words_ = static_cast<std::atomic<Word>*>(table_.memory());
    return reserved;
  }

  // Makes the words of a region usable before it is published, if it is one for blocks. False: no
  // memory.
  bool cover(const Region& region) REQUIRES(growth_lock) {
    if (region.use == RegionUse::kExtents) return true;
    // Blocks lie at the high end of the window.
    if (!table_.cover(page_of(region.base) * sizeof(Word), bytes())) return false;
    if (region.base < lowest_.load(std::memory_order_relaxed)) {
      lowest_.store(region.base, std::memory_order_release);
    }
    return true;
  }

  // Nobody uses the words of these addresses, or of others for which is_unused(from, to) is true:
  // pages of the table that hold no others are given back.
  template <typename IsUnused>
  void forget(uintptr_t base, size_t length, IsUnused is_unused) REQUIRES(growth_lock);

  // A region is gone. Page tables of the table go with it where is_vacant(address, bytes) is true
  // of all that they tell of.
  template <typename IsVacant>
  void drop_page_tables(const Region& region, IsVacant is_vacant) REQUIRES(growth_lock);

  // Whether the address lies in the part of the window that has words.
  bool is_covered(uintptr_t address) const {
    return address >= lowest_.load(std::memory_order_relaxed) &&
           address - window_.base() < window_.size();
  }

  // The address must be covered.
  std::atomic<Word>& at(uintptr_t address) { return words_[page_of(address)]; }
  Word get(uintptr_t address) const {
    return words_[page_of(address)].load(std::memory_order_relaxed);
  }
  void set(uintptr_t address, Word word) {
    words_[page_of(address)].store(word, std::memory_order_relaxed);
  }

  size_t page_of(uintptr_t address) const { return (address - window_.base()) / os::page_size(); }
  uintptr_t address_of(size_t page) const { return window_.base() + page * os::page_size(); }
  size_t metadata_bytes() const { return table_.bytes(); }

 private:
  // The address of which a word of the table tells.
  uintptr_t told_by(uintptr_t word) const {
    return address_of(static_cast<size_t>(reinterpret_cast<std::atomic<Word>*>(word) - words_));
  }
  size_t bytes() const { return window_.size() / os::page_size() * sizeof(Word); }

  const Window& window_;
  std::atomic<Word>* words_ = nullptr;
  std::atomic<uintptr_t> lowest_{UINTPTR_MAX};  // address that was covered
  TwoEndedTable table_;
};

template <typename IsUnused>
void BlockTable::forget(uintptr_t base, size_t length, IsUnused is_unused) {
  give_back_entries(
      &at(base), &at(base + length), base, base + length,
      [&](uintptr_t word) { return told_by(word); }, is_unused);
}

template <typename IsVacant>
void BlockTable::drop_page_tables(const Region& region, IsVacant is_vacant) {
  const auto table = reinterpret_cast<uintptr_t>(words_);
  const auto end = reinterpret_cast<uintptr_t>(&at(region.end() - 1));
  const size_t reach = os::page_table_reach();
  for (uintptr_t from = os::align_down(reinterpret_cast<uintptr_t>(&at(region.base)), reach);
       from <= end; from += reach) {
    if (from < table || !table_.covers(from - table, from - table + reach)) continue;
    const uintptr_t told = told_by(from);
    if (is_vacant(told, told_by(from + reach) - told)) os::renew_table(pointer(from), reach);
  }
}

}  // namespace rdmalloc
