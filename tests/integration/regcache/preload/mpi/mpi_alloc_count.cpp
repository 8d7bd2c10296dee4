// Counts the blocks that rdmalloc serves to MPI: calls of rdm_alloc, and of malloc by the shim's
// MPI_Alloc_mem. This program is searched first, so both pass through it.
#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

#include "include/rdmalloc/rdmalloc.h"

namespace {

using Alloc = void*(size_t, size_t, unsigned);
using Malloc = void*(size_t);

constexpr uintptr_t kFunction = 256;  // bytes of code, at most

size_t calls = 0;
uintptr_t callers[2] = {};  // the shim's two functions that call malloc

void* next(const char* name) { return dlsym(RTLD_NEXT, name); }

// Not at the first call, which may come from anywhere.
[[gnu::constructor]] void find_callers() {
  const char* const names[] = {"MPI_Alloc_mem", "PMPI_Alloc_mem"};
  for (int i = 0; i < 2; ++i) {
    void* function = dlsym(RTLD_DEFAULT, names[i]);
    Dl_info info{};
    if (function == nullptr || dladdr(function, &info) == 0) continue;
    if (strstr(info.dli_fname, "rdmalloc-mpi") == nullptr) continue;
    callers[i] = reinterpret_cast<uintptr_t>(function);
  }
}

void count() { __atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED); }

}  // namespace

extern "C" {

RDM_API void* rdm_alloc(size_t size, size_t align, unsigned flags) {
  // Not a guarded static: that needs libstdc++, which a Fortran program does not have.
  static Alloc* real = nullptr;
  if (real == nullptr) real = reinterpret_cast<Alloc*>(next("rdm_alloc"));
  count();
  return real != nullptr ? real(size, align, flags) : nullptr;
}

RDM_API void* malloc(size_t size) {
  static Malloc* real = nullptr;
  if (real == nullptr) real = reinterpret_cast<Malloc*>(next("malloc"));
  const auto caller = reinterpret_cast<uintptr_t>(__builtin_return_address(0));
  if (caller - callers[0] < kFunction || caller - callers[1] < kFunction) count();
  return real(size);
}

RDM_API size_t mpi_alloc_served() { return __atomic_load_n(&calls, __ATOMIC_RELAXED); }

}  // extern "C"
