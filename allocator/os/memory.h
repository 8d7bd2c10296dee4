// The memory system calls, one function each: the only place in the allocator that maps, locks or
// seals. Everything here may run inside malloc, before libc is initialised and in a forked child:
// nothing allocates, throws or takes a lock. Tests link tests/support/fake_memory.cpp in its place
// to count calls and to make the k-th one fail.
#pragma once

#include <cstddef>
#include <cstdint>

#include "allocator/os/huge_page_size.h"
#include "allocator/os/page_size.h"
#include "allocator/status.h"

namespace rdmalloc::os {

enum class PageKind : uint8_t { kBase, kTransparentHuge, kHugetlb };

inline size_t page_size_of(PageKind kind) {
  if (kind == PageKind::kBase) return page_size();
  return kind == PageKind::kHugetlb ? hugetlb_page_size() : transparent_huge_page_size();
}

// Reserves address space without memory behind it, which core dumps leave out. Null when the kernel
// or RLIMIT_AS refuses. `beside`: bytes to leave free above and below, if possible. The kernel
// gives new mappings the highest free addresses, or the lowest ones in its legacy layout, so it
// does not choose a hole that move() leaves briefly in the reservation.
void* reserve(size_t bytes, size_t alignment, size_t beside = 0);

// Makes part of a reservation readable and writable; it reads as zero. With kHugetlb the range must
// be of whole huge pages, and kNoMemory means that the pool has no free huge pages.
Status open(void* address, size_t bytes, PageKind kind);

// Takes back what open() did: the range is inaccessible again and holds no memory.
void close(void* address, size_t bytes);

// Moves the pages of an open range, with their settings (locked, placed, huge), to an unused part
// of the reservation: pages of one mapping, and locked ones only if moves_locks(). leave() must
// follow for the old addresses, and may cover several moves at once. kRefused: they are not one
// mapping. kNoMemory: the process has too many mappings. After any failure nothing has moved.
Status move(void* from, size_t bytes, void* to);

// True when the kernel moves locked pages with their lock. It does so if it may leave a hole. If
// the old addresses must stay mapped (MREMAP_DONTUNMAP), it unlocks the whole mapping of which it
// moves a part, and since Linux 6.15 it counts the moved pages as locked at both places, forever.
bool moves_locks();

// For a range whose pages were moved away: it holds no memory, and is reserved from here on.
void leave(void* address, size_t bytes);

// Gives the pages of an open range to the kernel and reserves the range, as leave() does. False:
// the kernel refused, because the process has too many mappings, and nothing happened.
bool give_up(void* address, size_t bytes);

// Frees the page tables of a range that is reserved and holds nothing. Only those of which all is
// in the range (page_table_reach()), and none once another mapping has taken a hole, because that
// may lie here.
void drop_page_tables(void* address, size_t bytes);

// Faults in every missing page and leaves the others as they are. Unlike touching, it returns an
// error, not a SIGBUS, for a lack of huge pages, and also for pages that were moved away meanwhile.
// kUnsupported before Linux 5.14: then pages are faulted in when touched.
Status populate(void* address, size_t bytes);

// Pages of an open range that are still missing will be base pages, whatever open() was told.
void ask_for_base_pages(void* address, size_t bytes);

// Page faults of this thread so far, those of populate() included.
uint64_t page_faults();

// Locks the present pages now, and each of the others when it is faulted in. kOutOfBudget: above
// RLIMIT_MEMLOCK, which counts them all at once. While the process is confined (confinement.h), it
// is refused, and nothing is unlocked.
Status lock_on_fault(void* address, size_t bytes);
// The same for a range of this kind that open() has just opened and nobody has touched: also works
// while the process is confined.
Status lock_opened(void* address, size_t bytes, PageKind kind);
void unlock(void* address, size_t bytes);
// In a child of fork, which inherits no locks.
void note_fork_child();

// Makes what is mapped there now readable and writable again. False: the kernel refuses, or nothing
// is mapped.
bool make_accessible(void* address, size_t bytes);

// All of the range is mapped. False also while the process is confined.
bool is_mapped(const void* address, size_t bytes);

// Reserves again what the program unmapped of a reservation, if nobody has mapped it since.
void reserve_hole(void* address, size_t bytes);

// Copies what of `from` can be read, page by page; the rest of `to` becomes zero.
void copy_readable(void* to, const void* from, size_t bytes);

// Permanently forbids unmapping, remapping or re-protecting the range (mseal, Linux 6.10).
Status seal(void* address, size_t bytes);

// Prefers a NUMA node for pages not yet faulted in. kUnsupported without NUMA.
Status prefer_node(void* address, size_t bytes, int node);

// Drops the contents; the range reads as zero and is faulted in anew when touched. kUnsupported,
// and nothing dropped, when it is locked.
Status discard(void* address, size_t bytes);

// Gives back those pages of a table, out of the pages in which the bytes from `from` to `to` lie,
// that hold only zeros; they read as before. Nobody may write to them meanwhile.
void drop_zeros(const void* from, const void* to);

// Lets the children of fork inherit the range (MADV_DOFORK), even if a library asked for the
// opposite.
Status inherit_on_fork(void* address, size_t bytes);

// Memory for bookkeeping: private, zeroed, faulted in as it is touched. Null on failure.
void* map_metadata(size_t bytes);
void unmap_metadata(void* address, size_t bytes);
// The same, for what is never unmapped: cut from one mapping, if somebody made it ahead with that
// many bytes. Each mapping costs a process three system calls and something at its exit.
void* map_table(size_t bytes);
void map_tables_ahead(size_t bytes);
// Memory for a table of which only some parts will be used: they are opened, and never closed. The
// others read as zero, or cannot be read. Null on failure.
void* reserve_table(size_t bytes, bool is_readable);
// False: no memory.
bool open_table(void* address, size_t bytes);
// Drops a part that was opened: it reads as zero from then on, and its page tables are freed.
void renew_table(void* address, size_t bytes);
// The same as map_metadata() for memory that is dense, at a multiple of `alignment`, and that
// find_metadata() does not know of.
void* map_aligned(size_t bytes, size_t alignment);
// Finds the first map_metadata() memory at `at` or above. Most of it has an entry for each page of
// the window, and is nearly empty. False: there is none.
bool find_metadata(uintptr_t at, uintptr_t* from, uintptr_t* to);

// Bytes of the range that have pages now; 0 while the process is confined. Linear: for statistics.
size_t resident_bytes(const void* address, size_t bytes);

// Calls visit(context, start, huge) for each mapping that starts in the range; `huge`: its bytes in
// transparent huge pages now, as the kernel reports them. Linear in the process's mappings: for
// statistics.
using VisitHuge = void (*)(void* context, uintptr_t start, size_t huge);
void visit_transparent_huge(const void* address, size_t bytes, VisitHuge visit, void* context);

}  // namespace rdmalloc::os
