// MPI_Win_allocate on memory of the window, if the user asks for it (RDMALLOC_MPI_WIN_ALLOCATE). It
// becomes MPI_Win_create, so MPI_WIN_CREATE_FLAVOR is MPI_WIN_FLAVOR_CREATE, and the MPI library no
// longer places the ranks of a machine in shared memory by itself. Otherwise the call is passed on.
#pragma once

#include "regcache/preload/mpi/real.h"

namespace rdmalloc::mpi {

struct WindowCall {
  Count size;  // bytes
  Count displacement_unit;
  bool large;  // called by the name that ends in _c
  Handle info;
  Handle communicator;
  void* base;    // where to put the address
  void* window;  // and the handle
};

int allocate_window(const WindowCall& call);
int free_window(void* window);

}  // namespace rdmalloc::mpi
