// Open MPI's component: who gets its memory.  mpool_component CASE
//   served N    of four blocks, one by the name of the pool, N come from rdmalloc
//   exposed     memory by the hint exposed=true is in an exposed region
#include <mpi.h>

#include <initializer_list>

#include "tests/integration/regcache/preload/mpi/mpi_alloc_memory.h"

namespace {

probe::Verdict verdict;

void* allocate(const char* hints) {
  MPI_Info info = MPI_INFO_NULL;
  void* memory = nullptr;
  if (hints != nullptr) {
    MPI_Info_create(&info);
    MPI_Info_set(info, "mpool_hints", hints);
  }
  if (MPI_Alloc_mem(5000, info, &memory) != MPI_SUCCESS) verdict.broken("no memory");
  if (hints != nullptr) MPI_Info_free(&info);
  memset(memory, 1, 5000);
  return memory;
}

void serve(size_t promised) {
  for (const char* hints :
       {static_cast<const char*>(nullptr), "mpool=rdmalloc", "mpool=hugepage", "no_such_hint=1"}) {
    MPI_Free_mem(allocate(hints));
  }
  if (mpi_alloc::served() != promised) verdict.broken("%zu served", mpi_alloc::served());
}

void expose() {
  void* memory = allocate("mpool=rdmalloc,exposed=true");
  if (!mpi_alloc::exposed(memory)) verdict.broken("not exposed");
  MPI_Free_mem(memory);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  MPI_Init(nullptr, nullptr);
  if (strcmp(argv[1], "served") == 0) serve(probe::argument(argc, argv, 2, 0));
  if (strcmp(argv[1], "exposed") == 0) expose();
  MPI_Finalize();
  return verdict.status();
}
