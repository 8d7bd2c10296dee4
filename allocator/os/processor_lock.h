// Locks of which each processor has one, for its own threads. Taking the own one needs no locked
// instruction, which alone would cost more than malloc and free together: it is a restartable
// sequence (rseq), which the kernel begins anew if the thread is preempted or moved in the middle.
// It is only ever tried, because the holder may have been preempted.
//
// Whoever takes other processors' locks closes all of them first. From then on a sequence fails,
// and those under way are restarted (membarrier). Then the locks are ordinary bytes, as they are
// all the time where the kernel, libc or the processor has no restartable sequences: before glibc
// 2.35 and Linux 5.10, under valgrind, after the program has installed a seccomp filter.
//
// A child of vfork that calls malloc, which POSIX forbids, uses its suspended parent's sequence, of
// which the kernel knows nothing: two threads may then get the same lock.
//
// Runs inside malloc.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "allocator/os/processor.h"

namespace rdmalloc::os {

using ProcessorLock = std::atomic<uint8_t>;  // 1: taken

// Whether sequences may be used; how many keep them closed.
extern constinit std::atomic<bool> locks_restart;
extern constinit std::atomic<uint32_t> locks_closed;

// Called before the first lock is taken.
void enable_processor_locks();

// Other processors' locks may be taken, and must be given back, between these two. Several threads
// may be there at once. Costs microseconds in a process with threads.
void close_processor_locks();
void open_processor_locks();
// In a child of fork, whose only thread is between these two.
void renew_processor_locks();

// No sequence is used from now on: membarrier may soon be forbidden.
void stop_restarting();

inline bool try_lock(ProcessorLock& lock) {
  return lock.exchange(1, std::memory_order_acquire) == 0;
}
inline void unlock(ProcessorLock& lock) { lock.store(0, std::memory_order_release); }

#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
// The kernel's record of a sequence (struct rseq_cs) is version, flags, start, length and where to
// go on after a restart: there the signature that glibc registered stands in front.
[[gnu::always_inline]] inline void* lock_own_by_restarting(void* locks, size_t stride) {
  char* mine;
  asm volatile(
      ".pushsection __rseq_cs, \"aw?\"\n\t"
      ".balign 32\n"
      "1: .long 0, 0\n\t"
      ".quad 2f, 3f - 2f, 4f\n\t"
      ".popsection\n\t"
      ".pushsection .text.unlikely, \"ax?\"\n\t"
      ".byte 0x0f, 0xb9, 0x3d\n\t"
      ".long 0x53053053\n"
      "4: xorl %k[mine], %k[mine]\n\t"
      "jmp 3f\n\t"
      ".popsection\n\t"
      "leaq 1b(%%rip), %[mine]\n\t"
      "movq %[mine], %%fs:4(%[number])\n"
      "2: movl %%fs:(%[number]), %k[mine]\n\t"
      "cmpl %[most], %k[mine]\n\t"
      "jae 4b\n\t"
      "imulq %[stride], %[mine]\n\t"
      "addq %[locks], %[mine]\n\t"
      "cmpl $0, %[closed]\n\t"
      "jne 4b\n\t"
      "cmpb $0, (%[mine])\n\t"
      "jne 4b\n\t"
      "movb $1, (%[mine])\n"
      "3:\n\t"
      : [mine] "=&r"(mine)
      : [number] "r"(processor_number_at), [most] "i"(kMostProcessors), [stride] "re"(stride),
        [locks] "r"(locks), [closed] "m"(locks_closed)
      : "memory", "cc");
  return mine;
}
#else
inline void* lock_own_by_restarting(void*, size_t) { return nullptr; }
#endif

// Takes the lock of the processor that runs the thread. The locks are bytes in an array of
// kMostProcessors structs of `stride` bytes, each at its struct's start. Returns that struct; null:
// somebody has the lock.
inline void* lock_own(void* locks, size_t stride) {
  if (locks_restart.load(std::memory_order_relaxed)) [[likely]]
    return lock_own_by_restarting(locks, stride);
  const size_t number = current_processor() % kMostProcessors;
  auto* const lock = reinterpret_cast<ProcessorLock*>(static_cast<char*>(locks) + number * stride);
  return try_lock(*lock) ? lock : nullptr;
}

}  // namespace rdmalloc::os
