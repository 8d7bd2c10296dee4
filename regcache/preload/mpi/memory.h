// MPI_Alloc_mem and MPI_Free_mem: what the window can serve comes from the window; everything else,
// including errors, is left to the MPI library. Any thread; no function holds a lock while it calls
// MPI.
//
// The library's own MPI_Alloc_mem takes memory from malloc, and so also from the window, but keeps
// a header in front of it (MPICH) or an entry in a tree (Open MPI). So an address does not show who
// allocated it: what the library allocated is remembered.
#pragma once

#include <stdlib.h>

#include <atomic>

#include "allocator/os/cache_line.h"
#include "regcache/preload/mpi/real.h"
#include "regcache/preload/mpi/table.h"

namespace rdmalloc::mpi {

// What the fast path reads, in one cache line.
struct alignas(os::kCacheLine) Fast {
  // An info is null if (info & mask) == null_info: never, until the fast path is in use. Then MPI
  // is running and is one we know, no profiling tool is in between, malloc is rdmalloc's, and
  // memory is not to be exposed.
  std::atomic<Handle> mask{0};
  std::atomic<Handle> null_info{1};
  // Reasons not to simply free memory: 1 until then, and 1 for each block in `theirs`.
  std::atomic<size_t> reasons{1};
};
extern Fast fast;

// What the MPI library allocated itself.
extern Table theirs;

// For all cases.
int allocate(Count size, Handle info, void* out);
int release(void* base);
// What allocate() returns if there is no memory.
int refuse();

// Returns memory of the window, or null. If memory cannot be exposed, it is ordinary memory: an
// info is a hint, and a setting must not end the program.
void* take(size_t size, size_t align, bool exposed);

// Whether MPI is running and is one we know; MPI is asked until it has been seen running.
bool is_running(const RealMpi& real);

// Raises MPI_ERR_NO_MEM through the error handler: as a call of MPI without a communicator does, or
// as a call on that communicator does.
int raise_no_memory(const RealMpi& real);
int raise_no_memory_on(const RealMpi& real, Handle communicator);

// Whether a call of malloc is all that is needed: rdm_alloc would do the same at twice the cost.
inline bool is_plain(Count size, Handle info, const void* out) {
  const Handle mask = fast.mask.load(std::memory_order_acquire);
  return (info & mask) == fast.null_info.load(std::memory_order_relaxed) && size > 0 &&
         out != nullptr;
}

// Calls free if that is all that is needed: free itself recognizes memory outside the window.
inline bool release_plain(void* base) {
  if (fast.reasons.load(std::memory_order_acquire) != 0) return false;
  free(base);
  return true;
}

}  // namespace rdmalloc::mpi
