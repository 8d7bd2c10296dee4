// The lock of what is kept for one processor, and changes that the processor's own threads make
// without it.
//
// Such a change is a restartable sequence (rseq): the kernel begins it anew if the thread is
// preempted or moved in the middle. So it needs no locked instruction, of which two would cost as
// much as the rest of malloc and free, and a thread that loses its processor keeps nobody out.
// Sequences are used on x86-64 where the kernel and libc have them (Linux 5.10, glibc 2.35), but
// not under valgrind, and not after the program has installed a seccomp filter, which may forbid
// membarrier.
//
// The lock is for everybody else. Whoever wants it closes it to sequences first: from then on they
// change nothing, and those under way have been restarted. Until it is open again, the processor's
// own threads take the lock, too, as they always do where there are no sequences.
//
// A child of vfork that calls malloc, which POSIX forbids, uses its suspended parent's sequence, of
// which the kernel knows nothing: two threads may then change the same word.
//
// Runs inside malloc.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "allocator/os/processor.h"

// tsan does not see what sequences do.
#if defined(__has_feature)
#define RDM_HAS_TSAN __has_feature(thread_sanitizer)
#elif defined(__SANITIZE_THREAD__)
#define RDM_HAS_TSAN 1
#else
#define RDM_HAS_TSAN 0
#endif
#if defined(__x86_64__) && !RDM_HAS_TSAN
#define RDM_SEQUENCES 1
#else
#define RDM_SEQUENCES 0
#endif

namespace rdmalloc::os {

// Where the kernel writes the processor's number (processor.h), if sequences are used; else 0.
extern constinit std::atomic<ptrdiff_t> sequences_at;

// Finds the processor's number, and uses sequences from now on if that is possible. Called before
// the first lock is taken.
void enable_sequences();
// None is used from now on: membarrier may soon be forbidden.
void stop_sequences();
// In a child of fork, before it starts a thread.
void renew_sequences();

// What a thread has seen, and what it makes of that: the word says which slots are in use.
struct Change {
  uint32_t* word;
  uint32_t seen;
  uint32_t word_new;
  uint64_t* slot;
  uint64_t value;      // of the slot: it is written, ...
  bool fills;          // ... or, if this is false, it must still be there
  ptrdiff_t to_total;  // is added to the total
};

// What to do between tries to get what somebody else has, after so many: the holder may be a thread
// that this thread's priority keeps from running.
void wait_for_holder(int tries);

// Memory that is zero is a lock that nobody has.
class ProcessorLock {
 public:
  // A change by a thread of that processor. False: nothing has changed, because something was not
  // as seen, the thread was interrupted, or somebody has the lock.
  bool change(size_t processor, const Change& change);
  // The same where sequences_at is `at`, which is not 0.
  template <bool kFills>
  bool change_by_sequence(ptrdiff_t at, size_t processor, const Change& change);
  // The same by any thread that has closed the lock.
  bool change_by_lock(const Change& change);

  // Keeps everybody out; waits for whoever has it. The calling thread has closed it.
  void lock();
  void unlock() { taken_.store(0, std::memory_order_release); }

  // Closes it to sequences. Several threads may have closed it at once. Takes a microsecond in a
  // process with threads.
  void close(size_t processor);
  void open();
  // The same for many locks: the first for each, the second once, the third for each.
  void begin_to_close() { closed_.fetch_add(1); }
  static void wait_for_sequences();
  void end_closing() { fenced_.fetch_add(1); }
  // In a child of fork: nobody but the calling thread has closed it.
  void forget_others();

  // The sum of what changes added to it. A thread adds just after its sequence, by one instruction,
  // in which it meets another one only if it was moved in between; so it may be off by a little.
  ptrdiff_t total() const { return __atomic_load_n(&total_, __ATOMIC_RELAXED); }
  void set_total(ptrdiff_t total) { __atomic_store_n(&total_, total, __ATOMIC_RELAXED); }

 private:
  bool is_closed() const { return closed_.load(std::memory_order_relaxed) != 0; }
  bool try_lock();
  void add(ptrdiff_t amount) {
#if RDM_SEQUENCES
    asm volatile("addq %1, %0" : "+m"(total_) : "er"(amount) : "cc");
#else
    set_total(total_ + amount);
#endif
  }

  // A sequence reads these as one word, which must be zero.
  std::atomic<uint8_t> taken_;
  std::atomic<uint16_t> fenced_;  // how many have closed it, and waited for the sequences
  std::atomic<uint32_t> closed_;  // how many have begun to close it
  ptrdiff_t total_;
};

// Its only store that others look at comes last: that of the word. The kernel's record of a
// sequence (struct rseq_cs) is version, flags, start, length and where to go on: there the
// signature that glibc registered stands in front.
template <bool kFills>
[[gnu::always_inline]] inline bool ProcessorLock::change_by_sequence(
    [[maybe_unused]] ptrdiff_t at, [[maybe_unused]] size_t processor,
    [[maybe_unused]] const Change& change) {
#if RDM_SEQUENCES
  asm goto(
      ".pushsection __rseq_cs, \"aw?\"\n\t"
      ".balign 32\n"
      "1: .long 0, 0\n\t"
      ".quad 2f, 3f - 2f, 4f\n\t"
      ".popsection\n\t"
      ".pushsection .text.unlikely, \"ax?\"\n\t"
      ".byte 0x0f, 0xb9, 0x3d\n\t"
      ".long 0x53053053\n"
      "4: jmp %l[nothing]\n\t"
      ".popsection\n\t"
      "leaq 1b(%%rip), %%rax\n\t"
      "movq %%rax, %%fs:4(%[at])\n"
      "2: cmpl %k[processor], %%fs:(%[at])\n\t"
      "jne %l[nothing]\n\t"
      "cmpq %[at], %[sequences_at]\n\t"
      "jne %l[nothing]\n\t"
      "cmpq $0, (%[lock])\n\t"
      "jne %l[nothing]\n\t"
      "cmpl %[seen], (%[word])\n\t"
      "jne %l[nothing]\n\t"
      ".if %c[fills]\n\t"
      "movq %[value], (%[slot])\n\t"
      ".else\n\t"
      "cmpq %[value], (%[slot])\n\t"
      "jne %l[nothing]\n\t"
      ".endif\n\t"
      "movl %[word_new], (%[word])\n"
      "3:\n\t"
      :
      : [at] "r"(at), [processor] "r"(processor), [sequences_at] "m"(sequences_at),
        [lock] "r"(this), [word] "r"(change.word), [seen] "r"(change.seen),
        [word_new] "r"(change.word_new), [slot] "r"(change.slot), [value] "r"(change.value),
        [fills] "i"(kFills ? 1 : 0)
      : "memory", "cc", "rax"
      : nothing);
  add(change.to_total);
  return true;
nothing:
#endif
  return false;
}

}  // namespace rdmalloc::os
