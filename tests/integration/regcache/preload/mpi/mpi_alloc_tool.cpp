// A profiling tool as MPI defines them: it defines MPI_Alloc_mem and MPI_Free_mem and calls the
// library through PMPI_*. It counts the calls.
#include <stddef.h>
#include <stdint.h>

#include "include/rdmalloc/rdmalloc.h"

namespace {

size_t calls = 0;

}  // namespace

extern "C" {

int PMPI_Alloc_mem(ptrdiff_t size, uintptr_t info, void* base);
int PMPI_Free_mem(void* base);

RDM_API int MPI_Alloc_mem(ptrdiff_t size, uintptr_t info, void* base) {
  ++calls;
  return PMPI_Alloc_mem(size, info, base);
}

RDM_API int MPI_Free_mem(void* base) {
  ++calls;
  return PMPI_Free_mem(base);
}

RDM_API size_t mpi_tool_calls() { return calls; }

}  // extern "C"
