// The calls of <sys/mman.h>, not made by libc's names: in librdmalloc.so those names belong to the
// monitors of foreign memory (regcache/foreign/monitor), which the heap's memory is not. Like
// libc's, errno included.
#pragma once

#include <sys/mman.h>
#include <sys/syscall.h>

#include "allocator/os/system_call.h"

namespace rdmalloc::os {

// A sanitizer must see every mapping. It intercepts libc's names, which are then not ours.
#ifdef RDM_SANITIZED

using ::madvise;
using ::mmap;
using ::mprotect;
using ::mremap;
using ::munmap;

#else

inline void* mmap(void* address, size_t bytes, int rights, int flags, int fd, off_t offset) {
  return reinterpret_cast<void*>(libc_answer(
      system_call(SYS_mmap, word(address), static_cast<long>(bytes), rights, flags, fd, offset)));
}

inline int munmap(void* address, size_t bytes) {
  return static_cast<int>(
      libc_answer(system_call(SYS_munmap, word(address), static_cast<long>(bytes))));
}

inline void* mremap(void* address, size_t bytes, size_t new_bytes, int flags, void* target) {
  return reinterpret_cast<void*>(
      libc_answer(system_call(SYS_mremap, word(address), static_cast<long>(bytes),
                              static_cast<long>(new_bytes), flags, word(target))));
}

inline int mprotect(void* address, size_t bytes, int rights) {
  return static_cast<int>(
      libc_answer(system_call(SYS_mprotect, word(address), static_cast<long>(bytes), rights)));
}

inline int madvise(void* address, size_t bytes, int advice) {
  return static_cast<int>(
      libc_answer(system_call(SYS_madvise, word(address), static_cast<long>(bytes), advice)));
}

#endif

}  // namespace rdmalloc::os
