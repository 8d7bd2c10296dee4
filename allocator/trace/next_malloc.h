// The malloc family that the program would use without the recorder: the next one that ld.so finds.
// Looked up at the first call of any of its functions, which may come before libc is initialised.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rdmalloc::trace {

struct NextMalloc {
  void* (*malloc)(size_t);
  void* (*calloc)(size_t, size_t);
  void* (*realloc)(void*, size_t);
  void (*free)(void*);
  int (*posix_memalign)(void**, size_t, size_t);
  void* (*aligned_alloc)(size_t, size_t);
  void* (*memalign)(size_t, size_t);
  void* (*valloc)(size_t);
  void* (*pvalloc)(size_t);
  size_t (*malloc_usable_size)(void*);
};

// At first these functions look up the real ones, so that no call has to check.
extern NextMalloc next;

// Memory that dlsym() allocates during that lookup: never freed.
inline constexpr size_t kEarlyBytes = 64 << 10;
extern char early_memory[kEarlyBytes];

inline bool is_early(const void* pointer) {
  return reinterpret_cast<uintptr_t>(pointer) - reinterpret_cast<uintptr_t>(early_memory) <
         kEarlyBytes;
}
void* resize_early(void* pointer, size_t size);
size_t early_size(const void* pointer);

// Whether the calling thread is looking functions up: its allocations are not the program's.
bool is_looking_up();

}  // namespace rdmalloc::trace
