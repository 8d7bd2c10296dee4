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
  const probe::Library& library = probe::library();
  rdm_region region{};
  for (size_t i = 0; library.loaded() && library.region_get(i, &region) == RDM_OK; ++i) {
    const auto* base = static_cast<const char*>(region.base);
    if (memory >= base && memory < base + region.length) return region.exposed != 0;
  }
  return false;
}

}  // namespace mpi_alloc
