#pragma once

#include <dlfcn.h>

#include "regcache/lock_order.h"

namespace rdmalloc {

// Finds the function of that name in a library that dlopen() returned, or in a pseudo-handle.
// False, and *out is null, if there is none.
template <typename Function>
bool find_function(void* library, const char* name, Function* out) {
  assert_linker_may_be_called();
  *out = reinterpret_cast<Function>(dlsym(library, name));
  return *out != nullptr;
}

// The same by version, for libraries that keep older interfaces under the same names.
template <typename Function>
bool find_function(void* library, const char* name, const char* version, Function* out) {
  assert_linker_may_be_called();
  *out = reinterpret_cast<Function>(dlvsym(library, name, version));
  return *out != nullptr;
}

}  // namespace rdmalloc
