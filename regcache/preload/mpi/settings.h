// The MPI shim's settings and messages.
#pragma once

namespace rdmalloc::mpi {

struct Settings {
  bool exposed = false;       // RDMALLOC_MPI_EXPOSED
  bool win_allocate = false;  // RDMALLOC_MPI_WIN_ALLOCATE
  bool warn = true;           // RDMALLOC_WARN
};

// From the environment, once, before main; later read only.
void read_settings();
const Settings& settings();

// Reports on standard error, once for the process, that MPI was called and there is none.
void say_no_mpi();
// Likewise: memory that was to be exposed is ordinary memory.
void say_not_exposed();

}  // namespace rdmalloc::mpi
