// System calls that change memory, each made in one of two ways: through the C library's functions,
// as programs do, or "raw", by our own instruction that no function can intercept.
#pragma once

#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "allocator/os/system_call.h"

namespace probe {

inline long raw_call(long number, uintptr_t a = 0, uintptr_t b = 0, uintptr_t c = 0,
                     uintptr_t d = 0, uintptr_t e = 0, uintptr_t f = 0) {
  using rdmalloc::os::libc_answer;
  using rdmalloc::os::system_call;
  return libc_answer(system_call(number, static_cast<long>(a), static_cast<long>(b),
                                 static_cast<long>(c), static_cast<long>(d), static_cast<long>(e),
                                 static_cast<long>(f)));
}

// Returns values as the C library's functions do.
class MemoryCalls {
 public:
  // Which calls are raw.
  enum Raw : unsigned {
    kNone = 0,
    kEnding = 1,   // munmap, madvise, brk
    kMapping = 2,  // mmap, mremap, shmdt
    kAll = 3
  };
  explicit MemoryCalls(unsigned raw) : raw_(raw) {}
  bool are_ends_raw() const { return (raw_ & kEnding) != 0; }

  void* map(void* at, size_t length, int flags, int fd = -1) const {
    constexpr int kAccess = PROT_READ | PROT_WRITE;
    if ((raw_ & kMapping) == 0) return mmap(at, length, kAccess, flags, fd, 0);
    return as_pointer(raw_call(SYS_mmap, from(at), length, kAccess, static_cast<uintptr_t>(flags),
                               static_cast<uintptr_t>(fd), 0));
  }
  int unmap(void* at, size_t length) const {
    if ((raw_ & kEnding) == 0) return munmap(at, length);
    return static_cast<int>(raw_call(SYS_munmap, from(at), length));
  }
  void* remap(void* at, size_t length, size_t new_length, int flags, void* to = nullptr) const {
    if ((raw_ & kMapping) == 0) return mremap(at, length, new_length, flags, to);
    return as_pointer(raw_call(SYS_mremap, from(at), length, new_length,
                               static_cast<uintptr_t>(flags), from(to)));
  }
  int advise(void* at, size_t length, int advice) const {
    if ((raw_ & kEnding) == 0) return madvise(at, length, advice);
    return static_cast<int>(
        raw_call(SYS_madvise, from(at), length, static_cast<uintptr_t>(advice)));
  }
  int detach(void* at) const {
    if ((raw_ & kMapping) == 0) return shmdt(at);
    return static_cast<int>(raw_call(SYS_shmdt, from(at)));
  }
  // Where the break was; one thread at a time, always through the same way.
  char* move_break(intptr_t by) const {
    if ((raw_ & kEnding) == 0) return static_cast<char*>(sbrk(by));
    const auto was = static_cast<uintptr_t>(raw_call(SYS_brk));
    const auto is = static_cast<uintptr_t>(raw_call(SYS_brk, was + static_cast<uintptr_t>(by)));
    return reinterpret_cast<char*>(is == was + static_cast<uintptr_t>(by) ? was : UINTPTR_MAX);
  }

 private:
  static uintptr_t from(void* pointer) { return reinterpret_cast<uintptr_t>(pointer); }
  static void* as_pointer(long result) { return reinterpret_cast<void*>(result); }
  unsigned raw_;
};

}  // namespace probe
