// What a function of MPI_Alloc_mem's form costs that does nothing but call malloc, and its partner:
// the least that any library between a program and malloc can cost. In a shared object of its own.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

__attribute__((visibility("default"))) int bench_wrapped_alloc(ptrdiff_t size, uintptr_t info,
                                                               void* base);
__attribute__((visibility("default"))) int bench_wrapped_free(void* base);

}  // extern "C"
