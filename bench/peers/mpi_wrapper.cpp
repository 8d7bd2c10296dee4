#include "bench/peers/mpi_wrapper.h"

#include <stdlib.h>

int bench_wrapped_alloc(ptrdiff_t size, uintptr_t, void* base) {
  *static_cast<void**>(base) = malloc(static_cast<size_t>(size));
  return 0;
}

int bench_wrapped_free(void* base) {
  free(base);
  return 0;
}
