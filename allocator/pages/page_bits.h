// A bit for each page of the window, in an array that is backed as it is written.
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

  // How many words the array has: whole pages of them.
  static size_t words(const Window& window);
  void boot(Word* words) { words_ = words; }

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

  size_t page_of(uintptr_t address) const { return (address - window_.base()) / os::page_size(); }
  // The first page in [from, to) whose bit is set, or with `inverted` is not.
  size_t find(size_t from, size_t to, bool inverted) const;
  uintptr_t first(uintptr_t address, uintptr_t end, bool inverted) const;

  const Window& window_;
  Word* words_ = nullptr;
  std::atomic<bool> was_set_{false};  // ever, any bit: until then nobody touches the array
};

}  // namespace rdmalloc
