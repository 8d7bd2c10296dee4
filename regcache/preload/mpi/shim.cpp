// librdmalloc-mpi.so: MPI_Alloc_mem and MPI_Free_mem from the window, under any MPI.
//
// Interposes both the names that programs call and the profiling names. Fortran's bindings call the
// latter, so they need no names of their own; so do profiling tools, which stay between the program
// and us. A program that finds the functions with dlsym in the MPI library itself gets the
// library's versions of both.
#include "include/rdmalloc/rdmalloc.h"
#include "regcache/preload/mpi/memory.h"
#include "regcache/preload/mpi/real.h"
#include "regcache/preload/mpi/settings.h"
#include "regcache/preload/mpi/windows.h"

namespace {

using namespace rdmalloc::mpi;  // NOLINT(google-build-using-namespace): C functions follow

// Only the output address is live across the call of malloc; everything else is a tail call, so the
// plain case saves no registers for the others.
template <int (*kOdd)(Count, Handle, void*)>
inline int allocate_or(Count size, Handle info, void* base) {
  if (!is_plain(size, info, base)) [[unlikely]]
    return kOdd(size, info, base);
  void* memory = malloc(static_cast<size_t>(size));
  if (memory == nullptr) [[unlikely]]
    return refuse();
  *static_cast<void**>(base) = memory;
  return 0;
}

// Through a profiling tool's function of the same name, if there is one.
[[gnu::noinline]] int allocate_odd(Count size, Handle info, void* base) {
  const RealMpi* real = real_mpi();
  const auto tool = real != nullptr ? real->tool.alloc_mem : nullptr;
  return tool != nullptr ? tool(size, info, base) : allocate(size, info, base);
}

[[gnu::noinline]] int release_odd(void* base) {
  const RealMpi* real = real_mpi();
  const auto tool = real != nullptr ? real->tool.free_mem : nullptr;
  return tool != nullptr ? tool(base) : release(base);
}

[[gnu::constructor]] void start() { read_settings(); }

}  // namespace

extern "C" {

RDM_API int PMPI_Alloc_mem(Count size, Handle info, void* base) {
  return allocate_or<allocate>(size, info, base);
}

RDM_API int PMPI_Free_mem(void* base) { return release_plain(base) ? 0 : release(base); }

RDM_API int MPI_Alloc_mem(Count size, Handle info, void* base) {
  return allocate_or<allocate_odd>(size, info, base);
}

RDM_API int MPI_Free_mem(void* base) { return release_plain(base) ? 0 : release_odd(base); }

RDM_API int PMPI_Win_allocate(Count size, int unit, Handle info, Handle communicator, void* base,
                              void* window) {
  return allocate_window({size, unit, false, info, communicator, base, window});
}

RDM_API int PMPI_Win_allocate_c(Count size, Count unit, Handle info, Handle communicator,
                                void* base, void* window) {
  return allocate_window({size, unit, true, info, communicator, base, window});
}

RDM_API int PMPI_Win_free(void* window) { return free_window(window); }

RDM_API int MPI_Win_allocate(Count size, int unit, Handle info, Handle communicator, void* base,
                             void* window) {
  const RealMpi* real = real_mpi();
  const auto tool = real != nullptr ? real->tool.win_allocate : nullptr;
  if (tool != nullptr) return tool(size, unit, info, communicator, base, window);
  return PMPI_Win_allocate(size, unit, info, communicator, base, window);
}

RDM_API int MPI_Win_allocate_c(Count size, Count unit, Handle info, Handle communicator, void* base,
                               void* window) {
  const RealMpi* real = real_mpi();
  const auto tool = real != nullptr ? real->tool.win_allocate_c : nullptr;
  if (tool != nullptr) return tool(size, unit, info, communicator, base, window);
  return PMPI_Win_allocate_c(size, unit, info, communicator, base, window);
}

RDM_API int MPI_Win_free(void* window) {
  const RealMpi* real = real_mpi();
  const auto tool = real != nullptr ? real->tool.win_free : nullptr;
  return tool != nullptr ? tool(window) : PMPI_Win_free(window);
}

}  // extern "C"
