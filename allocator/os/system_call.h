// System calls by number, straight to the kernel, bypassing libc's functions, which others may
// interpose, including ourselves (regcache/foreign/monitor). No errno, no cancellation point.
// Anywhere, also before libc is initialised.
#pragma once

#include <errno.h>
#include <unistd.h>

namespace rdmalloc::os {

// What the kernel answers: -errno on an error.
inline long system_call(long number, long a = 0, long b = 0, long c = 0, long d = 0, long e = 0,
                        long f = 0) {
#if defined(__x86_64__)
  long answer;
  register long r10 asm("r10") = d;
  register long r8 asm("r8") = e;
  register long r9 asm("r9") = f;
  asm volatile("syscall"
               : "=a"(answer)
               : "0"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
               : "rcx", "r11", "memory");
  return answer;
#elif defined(__aarch64__)
  register long x8 asm("x8") = number;
  register long x0 asm("x0") = a;
  register long x1 asm("x1") = b;
  register long x2 asm("x2") = c;
  register long x3 asm("x3") = d;
  register long x4 asm("x4") = e;
  register long x5 asm("x5") = f;
  asm volatile("svc #0"
               : "+r"(x0)
               : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
               : "memory");
  return x0;
#else
#error "rdmalloc knows how to make system calls on x86-64 and AArch64"
#endif
}

template <typename Pointee>
long word(Pointee* pointer) {
  return reinterpret_cast<long>(pointer);
}

// The kernel's answer as libc gives it: -1 and errno on an error.
inline long libc_answer(long answer) {
  constexpr long kLastError = 4095;
  if (answer >= 0 || answer < -kLastError) return answer;
  errno = static_cast<int>(-answer);
  return -1;
}

}  // namespace rdmalloc::os
