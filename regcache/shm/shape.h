// The parameters of a segment's layout: options with the defaults filled in, and their ranges.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "include/rdmalloc/shm_plan.h"

namespace rdmalloc::shm {

// In fixed-width types: stored in a segment's header, so that processes that attach compute the
// same plan.
struct Shape {
  uint32_t procs;
  uint32_t layout;  // RDM_SHM_PAGE, ...
  uint32_t flags;   // RDM_SHM_MULTITHREADED, ...
  uint32_t queue_entries;
  uint64_t page_size;
  uint64_t cacheline;
  uint64_t eager_limit;
  uint64_t chunk_size;
  uint32_t eager_fragments;
  uint32_t max_fragments;
  uint32_t boxes;
  uint32_t reserved;  // 0
  uint64_t box_size;

  bool has_pairs() const { return layout != RDM_SHM_MPSC; }
  bool is_aggregated() const { return layout == RDM_SHM_AGGREGATED; }
  // Several threads of a process send.
  bool has_threads() const { return (flags & RDM_SHM_MULTITHREADED) != 0; }
  uint64_t to_lines(uint64_t bytes) const { return (bytes + cacheline - 1) & ~(cacheline - 1); }
};
static_assert(sizeof(Shape) == 72);

// RDM_OK, or RDM_INVALID and a message at `why`: the options are null, or without their size. Other
// values are not checked yet.
int read_options(const rdm_shm_plan_options* given, Shape* out, char* why, size_t why_size);

// RDM_OK, or RDM_INVALID and a message at `why`: a value is out of range.
int check(const Shape& shape, char* why, size_t why_size);

// Returns RDM_INVALID; writes the message to `why`, cut to `why_size` bytes.
__attribute__((format(printf, 3, 4))) int invalid(char* why, size_t why_size, const char* format,
                                                  ...);

}  // namespace rdmalloc::shm
