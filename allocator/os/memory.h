// The memory system calls, one function each: the only place in the allocator that maps, locks or
// seals. Everything here may run inside malloc, before libc is initialised and in a forked child:
// nothing allocates, throws or takes a lock. Tests link tests/support/fake_memory.cpp in its place
// to count calls and to make the k-th one fail.
#pragma once

#include <cstddef>
#include <cstdint>

#include "allocator/status.h"

namespace rdmalloc::os {

inline constexpr size_t kPageSize = 4096;
inline constexpr size_t kHugePageSize = size_t{2} << 20;

// To a multiple of `unit`, a power of two. Up from within a unit of SIZE_MAX is 0.
constexpr size_t align_up(size_t value, size_t unit) { return (value + unit - 1) & ~(unit - 1); }
constexpr size_t align_down(size_t value, size_t unit) { return value & ~(unit - 1); }
constexpr size_t page_ceil(size_t bytes) { return align_up(bytes, kPageSize); }
constexpr size_t page_floor(size_t bytes) { return align_down(bytes, kPageSize); }

enum class PageKind : uint8_t { kBase, kTransparentHuge, kHugetlb };

// Reserves address space without memory behind it, which core dumps leave out. Null when the kernel
// or RLIMIT_AS refuses.
void* reserve(size_t bytes, size_t alignment);

// Makes part of a reservation readable and writable; it reads as zero. With kHugetlb the range must
// be a multiple of kHugePageSize, and kNoMemory means that the pool has no free huge pages.
Status open(void* address, size_t bytes, PageKind kind);

// Takes back what open() did: the range is inaccessible again and holds no memory.
void close(void* address, size_t bytes);

// Moves the pages of an open range, and what was asked of the kernel for them (locked, placed, huge),
// to a part of the reservation that nobody uses. One mapping's pages at a time, all of them locked or
// none. Their old addresses hold no memory from then on; leave() must follow for them, for several
// moves at once. kNoMemory: the process has too many mappings; any failure: nothing moved.
Status move(void* from, size_t bytes, void* to, bool is_locked);

// What was moved away stays reserved, inaccessible, without a moment in which somebody else could be
// given it.
void leave(void* address, size_t bytes);

// Faults every page in. Unlike touching, a lack of huge pages is an error and not a SIGBUS.
Status populate(void* address, size_t bytes);

// Locks the pages there are, and each of the others as it comes. kOutOfBudget: above RLIMIT_MEMLOCK,
// which counts them all at once.
Status lock_on_fault(void* address, size_t bytes);
void unlock(void* address, size_t bytes);

// Forbids for ever that the range is unmapped, remapped or re-protected (mseal, Linux 6.10).
Status seal(void* address, size_t bytes);

// Prefers a NUMA node for pages not yet faulted in. kUnsupported without NUMA.
Status prefer_node(void* address, size_t bytes, int node);

// Drops the contents; the range reads as zero and is faulted in anew when touched. kUnsupported,
// and nothing dropped, when it is locked.
Status discard(void* address, size_t bytes);

// Lets the children of fork have the range (MADV_DOFORK), though a library asked that they should
// not.
Status inherit_on_fork(void* address, size_t bytes);

// Memory for bookkeeping: private, zeroed, faulted in as it is touched. Null on failure.
void* map_metadata(size_t bytes);

// Bytes of the range that have pages now. Linear: for statistics.
size_t resident_bytes(const void* address, size_t bytes);

// Bytes of the range that are backed by transparent huge pages now, as the kernel reports it.
size_t transparent_huge_bytes(const void* address, size_t bytes);

}  // namespace rdmalloc::os
