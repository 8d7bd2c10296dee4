// Which processor runs the calling thread: a hint, for it may run on another one a moment later.
// Inside malloc, before libc is initialised too.
#pragma once

#include <sched.h>

#include <cstddef>
#include <cstdint>

// glibc's registration of restartable sequences (2.35): where in a thread's memory the kernel
// writes the number. Weak, for other libcs.
extern "C" {
[[gnu::weak]] extern const ptrdiff_t __rseq_offset;
[[gnu::weak]] extern const unsigned __rseq_size;
}

namespace rdmalloc::os {

inline unsigned current_processor() {
#if defined(__x86_64__) || defined(__aarch64__)
  if (&__rseq_offset != nullptr && __rseq_size != 0) [[likely]] {
    // struct rseq: cpu_id_start, cpu_id.
    const auto* area = static_cast<const char*>(__builtin_thread_pointer()) + __rseq_offset;
    const int32_t number = *reinterpret_cast<const volatile int32_t*>(area + sizeof(uint32_t));
    if (number >= 0) [[likely]]
      return static_cast<unsigned>(number);
  }
#endif
  const int number = sched_getcpu();
  return number < 0 ? 0 : static_cast<unsigned>(number);
}

}  // namespace rdmalloc::os
