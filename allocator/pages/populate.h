// Faults a region's pages in, some at a time, so that other threads' system calls on memory get
// their turn, and measures how long that takes. Under no lock; inside malloc, or in the thread that
// registers the region.
#pragma once

#include "allocator/limits/budget.h"
#include "allocator/limits/huge_page_watch.h"
#include "allocator/pages/page_marks.h"
#include "allocator/pages/region.h"

namespace rdmalloc {

// All of them, once for each region. False: there is no room for the rest now, which comes by
// touch, or by the next call. Room is looked at again before each step, because others take of it.
bool populate_in_steps(const Region& region, PagesFor who, const PageMarks& marks,
                       const Budget& budget, HugePageWatch& watch);

// The pages from `from` to `to` that still are the region's. False: there is no room for all.
bool populate_at_once(const Region& region, uintptr_t from, uintptr_t to, const PageMarks& marks,
                      const Budget& budget, HugePageWatch& watch);

// As many of a new region's huge pages, from its start, as tell whether they pay. `wanted`: bytes
// at its start that somebody is about to touch.
void try_huge_pages(const Region& region, size_t wanted, const PageMarks& marks,
                    HugePageWatch& watch);

}  // namespace rdmalloc
