// The statistics of this process, gathered from the heap, jemalloc and the kernel, and their two
// written forms. Outside malloc only: it reads /proc and asks jemalloc, whose counters take locks.
#pragma once

#include <cstddef>

#include "allocator/pages/region.h"
#include "include/rdmalloc/rdmalloc.h"

namespace rdmalloc {

rdm_stats gather_stats();

// The page size of more than half of the region, as of a tenth of a second ago at most.
size_t page_size_of(const Region& region);

// One JSON object with all regions; false when writing fails.
bool write_json(const rdm_stats& stats, int fd);

// For a person, to standard error: what matters, in five lines, or every figure.
void write_summary(const rdm_stats& stats);
void write_figures(const rdm_stats& stats);

}  // namespace rdmalloc
