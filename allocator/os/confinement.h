// Sandboxes: a program that has the kernel kill it at any system call but those of a list (seccomp)
// had a malloc in mind that maps and unmaps memory. From the moment it asks for that, the allocator
// makes no calls of its own but mmap, munmap, mprotect, madvise and mremap; what else it would ask
// the kernel is asked before, once, and remembered here. OPTIONS.md says what remains.
//
// Nothing allocates or takes a lock: filters are installed between fork and exec, too.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "allocator/os/limits.h"

namespace rdmalloc::os {

// What was true when the filter came.
struct RememberedLimits {
  LockLimit lock;
  MemoryLeft left;
  Cgroup group;
  size_t most_mappings = 0;
};

inline constinit std::atomic<bool> confined{false};

// Acquire: who hears that it is reads what confine() remembered.
inline bool is_confined() { return confined.load(std::memory_order_acquire); }

// Asks what is to be known from now on. May be called again: it is nothing then.
void confine();

// With RDMALLOC_SANDBOX=off: filters are none of the allocator's business.
void ignore_filters();

// Whether this call by number installs a filter: prctl and seccomp do, in some of their uses.
bool installs_filter(long number, long a, long b);

// Makes it, confined from before it on; not confined if the kernel refuses. As libc's, errno
// included.
long install_filter(long number, long a, long b, long c, long d, long e);

// What libc's prctl does, that included.
int control_process(long option, long a, long b, long c, long d);

// What confine() found.
const RememberedLimits& remembered_limits();
// Of what was available then, what was not opened since.
uint64_t still(uint64_t available);
// Bytes became readable and writable, or inaccessible again.
void note_opened(size_t bytes);
void note_closed(size_t bytes);

// Locks on fault [address, address + bytes), which open() opened and nobody has touched, with
// mremap alone: it stretches a page that was locked on fault before the filter came, and moves it
// there. False: the limit or the kernel refuses, or this is a child of fork; the range is then open
// but not locked.
bool lock_by_moving(void* address, size_t bytes);

// In a child of fork, which has no locks: that page is as any other.
void forget_locked_page();

}  // namespace rdmalloc::os
