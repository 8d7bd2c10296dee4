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

#include "regcache/preload/mpi_real.h"
#include "regcache/preload/mpi_table.h"

namespace rdmalloc::mpi {

// What a call that needs no thought looks at, in one cache line.
struct alignas(64) Fast {
  // An info is null if (info & mask) == null_info: never, until MPI runs. It is one that we know
  // then, no profiling tool is between, malloc is rdmalloc's, and memory is not to be exposed.
  std::atomic<Handle> mask{0};
  std::atomic<Handle> null_info{1};
  // Why memory may not simply be freed: 1 until then, and 1 for each block in `theirs`.
  std::atomic<size_t> reasons{1};
};
extern Fast fast;

// What the MPI library allocated itself.
extern Table theirs;

// All cases.
int allocate(Count size, Handle info, void* out);
int release(void* base);
// What allocate() says where there is no memory.
int refuse();

// Memory of the window, or null. What cannot be exposed is ordinary memory: an info is a hint, and
// a setting must not end the program.
void* take(size_t size, size_t align, bool exposed);

// Whether MPI is running and is one we know; it is asked, until it has been seen to run.
bool is_running(const RealMpi& real);

// MPI_ERR_NO_MEM through the error handler, as a call of MPI without a communicator raises it, and
// as a call on that communicator does.
int raise_no_memory(const RealMpi& real);
int raise_no_memory_on(const RealMpi& real, Handle communicator);

// Whether a call of malloc is all that is needed: what rdm_alloc would come to, at half its cost.
inline bool is_plain(Count size, Handle info, const void* out) {
  const Handle mask = fast.mask.load(std::memory_order_acquire);
  return (info & mask) == fast.null_info.load(std::memory_order_relaxed) && size > 0 &&
         out != nullptr;
}

// Free, where that is all that is needed: it knows by itself what is not of the window.
inline bool release_plain(void* base) {
  if (fast.reasons.load(std::memory_order_acquire) != 0) return false;
  free(base);
  return true;
}

}  // namespace rdmalloc::mpi
