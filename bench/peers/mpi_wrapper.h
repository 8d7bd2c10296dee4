// The cost of a function with MPI_Alloc_mem's signature that only calls malloc, and of its
// counterpart: the minimum for any library between a program and malloc. In its own shared object.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

__attribute__((visibility("default"))) int bench_wrapped_alloc(ptrdiff_t size, uintptr_t info,
                                                               void* base);
__attribute__((visibility("default"))) int bench_wrapped_free(void* base);

}  // extern "C"
