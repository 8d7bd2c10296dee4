// System-call filters as sandboxes install them (seccomp), written in the kernel's format: they
// need no library and no malloc.
#pragma once

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace filter {

#if defined(__x86_64__)
inline constexpr unsigned kArchitecture = AUDIT_ARCH_X86_64;
#else
inline constexpr unsigned kArchitecture = AUDIT_ARCH_AARCH64;
#endif

// A system call, for one value of one argument or for all.
struct Rule {
  unsigned number;
  int argument = -1;
  unsigned value = 0;
};

// What the kernel does with the calls in the list, and with all others.
class Program {
 public:
  Program(unsigned otherwise) : otherwise_(otherwise) {
    add(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr));
  }

  void answer(const Rule& rule, unsigned action) {
    if (rule.argument < 0) {
      add_jump(rule.number, 1);
      add(BPF_RET | BPF_K, action);
      return;
    }
    add_jump(rule.number, 4);
    add(BPF_LD | BPF_W | BPF_ABS,
        static_cast<unsigned>(offsetof(seccomp_data, args) + 8 * unsigned(rule.argument)));
    add_jump(rule.value, 1);
    add(BPF_RET | BPF_K, action);
    add(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr));
  }

  // Through a libc function: prctl, or (`by_number`) syscall.
  bool install(bool by_number) {
    const sock_fprog program = finish();
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return false;
    if (by_number) return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0;
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0;
  }

  // By an instruction of the program's own, which cannot be intercepted.
  bool install_unheard() {
    const sock_fprog program = finish();
    if (raw(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0) != 0) return false;
    return raw(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
  }

 private:
  static constexpr unsigned kMost = 256;

#if defined(__x86_64__)
  template <typename Last>
  static long raw(long number, long a, long b, Last c) {
    long answer;
    register long r10 asm("r10") = 0;
    register long r8 asm("r8") = 0;
    asm volatile("syscall"
                 : "=a"(answer)
                 : "0"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8)
                 : "rcx", "r11", "memory");
    return answer;
  }
#elif defined(__aarch64__)
  template <typename Last>
  static long raw(long number, long a, long b, Last c) {
    register long x8 asm("x8") = number;
    register long x0 asm("x0") = a;
    register long x1 asm("x1") = b;
    register Last x2 asm("x2") = c;
    register long x3 asm("x3") = 0;
    register long x4 asm("x4") = 0;
    asm volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4) : "memory");
    return x0;
  }
#endif

  void add(unsigned code, unsigned value) {
    if (size_ < kMost) code_[size_++] = {static_cast<unsigned short>(code), 0, 0, value};
  }
  void add_jump(unsigned value, unsigned char past) {
    if (size_ < kMost) code_[size_++] = {BPF_JMP | BPF_JEQ | BPF_K, 0, past, value};
  }
  sock_fprog finish() {
    add(BPF_RET | BPF_K, otherwise_);
    return {static_cast<unsigned short>(size_), code_};
  }

  const unsigned otherwise_;
  sock_filter code_[kMost];
  unsigned size_ = 0;
};

}  // namespace filter
