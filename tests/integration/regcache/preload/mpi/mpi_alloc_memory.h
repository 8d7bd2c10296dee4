// Who serves MPI's memory, for test programs linked with mpi_alloc_count.cpp and their plug-ins.
// Found at run time.
#pragma once

#include "tests/integration/probe.h"

namespace mpi_alloc {

// Blocks that the shim, or Open MPI's component, took from rdmalloc.
inline size_t served() {
  static const auto count = probe::symbol<size_t()>("mpi_alloc_served");
  return count();
}

// Whether an address lies in an exposed region.
inline bool exposed(const void* memory) {
  rdm_region region;
  return probe::library().loaded() && probe::region_of(memory, 1, &region) && region.exposed != 0;
}

}  // namespace mpi_alloc
