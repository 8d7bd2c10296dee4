// Faults a region's pages in, some at a time, so that other threads' memory system calls get their
// turn, and measures how long that takes. Under no lock; inside malloc, or in the thread that
// registers the region.
#pragma once

#include "allocator/limits/budget.h"
#include "allocator/limits/huge_page_watch.h"
#include "allocator/pages/page_marks.h"
#include "allocator/pages/region.h"

namespace rdmalloc {

// Populates all pages, once for each region. False: there is no room for the rest now; it is
// faulted in when touched, or by the next call. Checks the room before each step, because others
// use it, too.
bool populate_in_steps(const Region& region, PagesFor who, const PageMarks& marks,
                       const Budget& budget, HugePageWatch& watch);

// Populates the pages from `from` to `to` that still are the region's. False: there is not enough
// room.
bool populate_at_once(const Region& region, uintptr_t from, uintptr_t to, const PageMarks& marks,
                      const Budget& budget, HugePageWatch& watch);

// Populates the first `bytes` of a new region.
void populate_beginning(const Region& region, size_t bytes, HugePageWatch& watch);

// Populates as many of a region's huge pages, from the first whole one at `new_from` or behind it,
// as it takes to tell whether they pay. `wanted`: bytes from there on that the program is about to
// touch.
void try_huge_pages(const Region& region, uintptr_t new_from, size_t wanted, const PageMarks& marks,
                    HugePageWatch& watch);

}  // namespace rdmalloc
