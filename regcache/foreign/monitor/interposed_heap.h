// What a program does to the heap's own pages. Any thread, outside malloc.
//
// Advice to drop them: the kernel does not drop pinned pages but refuses MADV_DONTNEED and
// MADV_FREE with EINVAL, where a program that knows other mallocs expects success and zeroes.
// Zeroing the bytes in place gives it both, and leaves the device its pages.
//
// Calls that unmap, replace or move away pages take them from their registrations: HeapHole
// surrounds these calls, and tells the heap (allocator/pages/program_holes.h) before the kernel
// acts. note_rights() reports calls that take away the right to access pages.
#pragma once

#include <cstddef>
#include <cstdint>

#include "allocator/pages/heap.h"

namespace rdmalloc::interposed {

// Carries out advice that the kernel refused with EINVAL in errno. For MADV_DONTNEED it zeroes the
// pages; for MADV_FREE it does nothing, because the kernel need never free them. Both require whole
// pages in one region of the heap that the program may write to. False: nothing was done, or only a
// part if the program had taken away rights to some of the pages; errno is unchanged.
bool follow_advice(void* address, size_t length, int advice);

// Whether some of the range lies in the heap's window. This check is all that calls elsewhere cost.
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

  // Whether the call takes pages of the heap.
  bool is_of_heap() const { return hole_.lost != 0; }

  // When the call has returned, call the one of these that applies; errno is preserved.
  void note_result(bool is_done) {
    if (is_open_) [[unlikely]]
      end(is_done);
  }
  // Done, and nothing is mapped there now: the kernel must not place other mappings there.
  void note_unmapped() {
    note_result(true);
    if (is_open_) [[unlikely]]
      reserve();
  }
  // Done, and these pages are unchanged.
  void note_unchanged();

 private:
  void begin(const void* base, size_t length);
  void end(bool is_done);
  void reserve() const;

  const char* const call_;
  bool is_open_ = false;
  ProgramHoles::Hole hole_;
};

// Reserves what lies in the heap's window instead of unmapping it, in one step, because another
// thread could otherwise be given the addresses. False: some of the range lies elsewhere.
bool lies_in_heap(const void* base, size_t length);

// mprotect(), which is about to be called, or has been.
enum class Rights : uint8_t { kAboutToGo, kBack };
void note_rights(const void* base, size_t length, Rights rights);

// Bytes of the heap that mmap() replaces: at most what it maps.
size_t replaced_of_heap(size_t length, int flags, int fd);

}  // namespace rdmalloc::interposed
