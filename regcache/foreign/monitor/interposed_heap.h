// What a program does to the heap's own pages. Any thread, outside malloc.
//
// Advice to drop them: the kernel does not drop pinned pages but refuses MADV_DONTNEED and
// MADV_FREE with EINVAL, where a program that knows other mallocs expects success and zeroes. To
// give it these, and to leave the device's pages in place, the bytes are zeroed in place.
//
// Calls that unmap, replace or move away pages take them from their registrations: HeapHole
// surrounds these calls, and tells the heap (allocator/pages/program_holes.h) before the kernel
// acts. note_rights() reports calls that take away the right to access pages.
#pragma once

#include <cstddef>
#include <cstdint>

#include "allocator/pages/heap.h"

namespace rdmalloc::interposed {

// Whether an advice that the kernel refused, with EINVAL in errno, is done here: MADV_DONTNEED
// zeroes the pages; MADV_FREE needs nothing, what it says may happen later need not. Both want
// whole pages of one region of the heap that the program may write to. False: nothing was done,
// unless the program took some of the pages' rights away; errno is as it was.
bool follow_advice(void* address, size_t length, int advice);

// Some of the range lies in the heap's window. All that calls elsewhere cost.
inline bool touches_heap(const void* base, size_t length) {
  const uintptr_t window = heap.window().base();
  const auto from = reinterpret_cast<uintptr_t>(base);
  return from < window + heap.window().size() && length != 0 && from + length - 1 >= window;
}

// Lives around one call that ends the mappings of a range.
class [[nodiscard]] HeapHole {
 public:
  // `call`: its name, for the user.
  HeapHole(const char* call, const void* base, size_t length) : call_(call) {
    if (touches_heap(base, length)) [[unlikely]]
      begin(base, length);
  }
  HeapHole(const HeapHole&) = delete;
  HeapHole& operator=(const HeapHole&) = delete;

  // It takes pages that are the heap's.
  bool is_of_heap() const { return hole_.lost != 0; }

  // Which of these holds when the call has returned; errno stays.
  void settle(bool is_done) {
    if (is_open_) [[unlikely]]
      end(is_done);
  }
  // Done, and nothing is mapped there now: the kernel must not put others' mappings there.
  void settle_unmapped() {
    settle(true);
    if (is_open_) [[unlikely]]
      reserve();
  }
  // Done, and nothing became of these pages.
  void settle_unchanged();

 private:
  void begin(const void* base, size_t length);
  void end(bool is_done);
  void reserve() const;

  const char* const call_;
  bool is_open_ = false;
  ProgramHoles::Hole hole_;
};

// Instead of unmapping what lies in the heap's window, it is reserved, in one step: else another
// thread could be given the addresses. False: some of the range lies elsewhere.
bool lies_in_heap(const void* base, size_t length);

// mprotect(), which is about to be called, or has been.
enum class Rights : uint8_t { kAboutToGo, kBack };
void note_rights(const void* base, size_t length, Rights rights);

// Bytes that mmap() replaces of the heap's: no more than it maps.
size_t replaced_of_heap(size_t length, int flags, int fd);

}  // namespace rdmalloc::interposed
