// The memory system calls, one function each: the only place in the allocator that maps, locks or
// seals. Everything here may run inside malloc, before libc is initialised and in a forked child:
// nothing allocates, throws or takes a lock. Tests link tests/support/fake_memory.cpp in its place
// to count calls and to make the k-th one fail.
#pragma once

#include <cstddef>
#include <cstdint>

#include "allocator/os/page_size.h"
#include "allocator/status.h"

namespace rdmalloc::os {

inline constexpr size_t kHugePageSize = size_t{2} << 20;

enum class PageKind : uint8_t { kBase, kTransparentHuge, kHugetlb };

// Reserves address space without memory behind it, which core dumps leave out. Null when the kernel
// or RLIMIT_AS refuses. `beside`: so many bytes above and below are left free, if that can be had.
// The kernel gives new mappings the highest addresses that are free, or in its legacy layout the
// lowest: so a hole that move() leaves in the reservation for a moment is nobody's choice.
void* reserve(size_t bytes, size_t alignment, size_t beside = 0);

// Makes part of a reservation readable and writable; it reads as zero. With kHugetlb the range must
// be a multiple of kHugePageSize, and kNoMemory means that the pool has no free huge pages.
Status open(void* address, size_t bytes, PageKind kind);

// Takes back what open() did: the range is inaccessible again and holds no memory.
void close(void* address, size_t bytes);

// Moves the pages of an open range, and what was asked of the kernel for them (locked, placed,
// huge), to a part of the reservation that nobody uses. One mapping's pages at a time; locked ones
// only if moves_locks(). leave() must follow for their old addresses, for several moves at once.
// kNoMemory: the process has too many mappings; any failure: nothing moved.
Status move(void* from, size_t bytes, void* to);

// True when the kernel moves locked pages and their lock. It does where it may leave a hole; where
// the old addresses must stay mapped (MREMAP_DONTUNMAP) it takes the lock off all of the mapping
// that it moves a part of, and from Linux 6.15 on it counts what it moves as locked at both places,
// for ever.
bool moves_locks();

// What was moved away holds no memory, and is reserved from here on.
void leave(void* address, size_t bytes);

// Gives the pages of an open range to the kernel; it is reserved like what was left. False: the
// kernel refused, because the process has too many mappings, and nothing happened.
bool give_up(void* address, size_t bytes);

// Faults every page in, and leaves what is there as it is. Unlike touching, a lack of huge pages is
// an error and not a SIGBUS, and so is what was moved away meanwhile. kUnsupported before
// Linux 5.14: then pages come by touch.
Status populate(void* address, size_t bytes);

// What has not come yet of an open range comes in base pages, whatever open() was told.
void ask_for_base_pages(void* address, size_t bytes);

// Page faults of this thread so far, those of populate() included.
uint64_t page_faults();

// Locks the pages there are, and each of the others as it comes. kOutOfBudget: above
// RLIMIT_MEMLOCK, which counts them all at once.
// While the process is confined (confinement.h) it is refused, and nothing is unlocked.
Status lock_on_fault(void* address, size_t bytes);
// The same for what open() opened a moment ago, of that kind, and nobody touched: also while the
// process is confined.
Status lock_opened(void* address, size_t bytes, PageKind kind);
void unlock(void* address, size_t bytes);
// In a child of fork, which inherits no locks.
void note_fork_child();

// Whatever lies there now can be read and written again. False: the kernel refuses, or nothing
// does.
bool make_accessible(void* address, size_t bytes);

// All of the range is mapped. False also while the process is confined.
bool is_mapped(const void* address, size_t bytes);

// Reserves again what the program unmapped of a reservation, if nobody has mapped it since.
void reserve_hole(void* address, size_t bytes);

// Copies what of `from` can be read, page by page; the rest of `to` becomes zero.
void copy_readable(void* to, const void* from, size_t bytes);

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
void unmap_metadata(void* address, size_t bytes);
// The first such memory at `at` or above: most of it has an entry for each page of the window, and
// is next to empty. False: there is none.
bool find_metadata(uintptr_t at, uintptr_t* from, uintptr_t* to);

// Bytes of the range that have pages now; 0 while the process is confined. Linear: for statistics.
size_t resident_bytes(const void* address, size_t bytes);

// Calls visit(context, start, huge) for each mapping that starts in the range and has so many bytes
// in transparent huge pages now, as the kernel reports it. Linear in the process's mappings: for
// statistics.
using VisitHuge = void (*)(void* context, uintptr_t start, size_t huge);
void visit_transparent_huge(const void* address, size_t bytes, VisitHuge visit, void* context);

}  // namespace rdmalloc::os
