// MPI_Win_allocate on memory of the window, if the user asks for it (RDMALLOC_MPI_WIN_ALLOCATE): as
// MPI_Win_create of it, so MPI_WIN_CREATE_FLAVOR says MPI_WIN_FLAVOR_CREATE, and the MPI library no
// longer places the ranks of a node in shared memory by itself. Else it is passed on.
#pragma once

#include "regcache/preload/mpi_real.h"

namespace rdmalloc::mpi {

struct WindowCall {
  Count size;  // bytes
  Count displacement_unit;
  bool large;  // by the name that ends in _c
  Handle info;
  Handle communicator;
  void* base;    // where to put the address
  void* window;  // and the handle
};

int allocate_window(const WindowCall& call);
int free_window(void* window);

}  // namespace rdmalloc::mpi
