// A bit for each page of the window. Several kinds of such bits share one table, in which words of
// 64 pages take turns.
//
// Set inside malloc; read from anywhere, without a lock.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "allocator/mutex.h"
#include "allocator/os/memory.h"
#include "allocator/pages/window.h"

namespace rdmalloc {

class PageBits {
 public:
  using Word = std::atomic<uint64_t>;

  explicit constexpr PageBits(const Window& window) : window_(window) {}
  PageBits(const PageBits&) = delete;
  PageBits& operator=(const PageBits&) = delete;

  // A power of two, so that whole pages of the table tell of whole granules.
  static constexpr size_t kKinds = 4;
  static size_t table_bytes(const Window& window);
  void boot(void* table, size_t kind) { words_ = static_cast<Word*>(table) + kind; }
  // The bytes of the table that tell of a range.
  size_t begin_of(uintptr_t address) const { return word_of(page_of(address)) * sizeof(Word); }
  size_t end_of(uintptr_t end) const { return (word_of(page_of(end - 1)) + kKinds) * sizeof(Word); }

  void set(uintptr_t address, size_t size) REQUIRES(growth_lock);
  void clear(uintptr_t address, size_t size) REQUIRES(growth_lock);
  // The addresses are used up: clears their bits, and gives back memory that holds no other bit.
  void forget(uintptr_t address, size_t size) REQUIRES(growth_lock);

  // True when the bit of any page of the range is set, or is not.
  bool is_set(uintptr_t address, size_t size) const {
    return find(page_of(address), page_of(address + size - 1) + 1, false) != kNone;
  }
  bool is_clear(uintptr_t address, size_t size) const {
    return find(page_of(address), page_of(address + size - 1) + 1, true) != kNone;
  }
  // The first page in the range whose bit is set, or is not; the range's end if there is none.
  uintptr_t first_set(uintptr_t address, uintptr_t end) const { return first(address, end, false); }
  uintptr_t first_clear(uintptr_t address, uintptr_t end) const {
    return first(address, end, true);
  }

 private:
  static constexpr size_t kNone = SIZE_MAX;
  static constexpr size_t kWordPages = 64;

  size_t page_of(uintptr_t address) const { return (address - window_.base()) / os::page_size(); }
  static size_t word_of(size_t page) { return page / kWordPages * kKinds; }
  template <typename Visit>
  void for_each_mask(size_t page, size_t end, Visit visit);
  // The first page in [from, to) whose bit is set, or with `inverted` is not.
  size_t find(size_t from, size_t to, bool inverted) const;
  uintptr_t first(uintptr_t address, uintptr_t end, bool inverted) const;

  const Window& window_;
  Word* words_ = nullptr;
  std::atomic<bool> was_set_{false};  // ever, any bit: until then nobody touches the table
};

}  // namespace rdmalloc
