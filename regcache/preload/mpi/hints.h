// What an MPI_Info requests of the memory.
#pragma once

#include <cstddef>

#include "regcache/preload/mpi/real.h"

namespace rdmalloc::mpi {

struct Hints {
  size_t align = 0;      // mpi_minimum_memory_alignment; 0: malloc's own
  bool exposed = false;  // rdmalloc_exposed, else RDMALLOC_MPI_EXPOSED
  bool theirs = false;   // asks for memory of a kind that only the MPI library has
};

// `info`: not null, and valid. MPI must be running. Unknown keys are no reason to pass the call on:
// MPI allows them to be ignored.
Hints read_hints(const RealMpi& real, Handle info);

}  // namespace rdmalloc::mpi
