// Sandboxes: a program that has the kernel kill it at any system call outside a list (seccomp)
// expects its malloc only to map and unmap memory. From the moment the program asks for that, the
// allocator itself makes only mmap, munmap, mprotect, madvise and mremap calls. It asks the kernel
// everything else once, beforehand, and remembers the answers here. OPTIONS.md describes what
// remains.
//
// Nothing allocates or takes a lock: filters are installed between fork and exec, too.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "allocator/os/limits.h"

namespace rdmalloc::os {

// What was true when the filter was installed.
struct RememberedLimits {
  LockLimit lock;
  MemoryLeft left;
  Cgroup group;
  size_t most_mappings = 0;
};

inline constinit std::atomic<bool> confined{false};

// Acquire: a thread that sees true also sees what confine() remembered.
inline bool is_confined() { return confined.load(std::memory_order_acquire); }

// Asks the kernel for everything that must be known from now on. Calling it again does nothing.
void confine();

// For RDMALLOC_SANDBOX=off: the allocator ignores filters.
void ignore_filters();

// Whether this call by number installs a filter: prctl and seccomp do, in some of their uses.
bool installs_filter(long number, long a, long b);
bool installs_filter_by_prctl(long option, long a);

// Makes such a call. The process is confined from just before it, but not if the kernel refuses.
// Returns and sets errno as libc does.
long install_filter(long number, long a, long b, long c, long d, long e);

// Does what libc's prctl does; installs filters by install_filter().
int control_process(long option, long a, long b, long c, long d);

// What confine() found.
const RememberedLimits& remembered_limits();
// What is left of `available`, which was read then, after all that was opened since.
uint64_t still(uint64_t available);
// Bytes became readable and writable, or inaccessible again.
void note_opened(size_t bytes);
void note_closed(size_t bytes);

// Locks [address, address + bytes) on fault, using only mremap. open() opened the range, and nobody
// has touched it. Stretches a page that was locked on fault before the filter was installed, and
// moves it there. False: the limit or the kernel refuses, or this is a child of fork; the range is
// then open but not locked.
bool lock_by_moving(void* address, size_t bytes);

// In a child of fork, which inherits no locks: that page becomes an ordinary one.
void forget_locked_page();

}  // namespace rdmalloc::os
