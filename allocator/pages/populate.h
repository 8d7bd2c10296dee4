// Faults a region's pages in, some at a time, so that other threads' system calls on memory come
// between. Once for each region. Under no lock; inside malloc, or by whoever registers the region.
#pragma once

#include "allocator/pages/page_marks.h"
#include "allocator/pages/region.h"

namespace rdmalloc {

void populate_in_steps(const Region& region, const PageMarks& marks);

}  // namespace rdmalloc
