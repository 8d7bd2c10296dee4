#pragma once

#include <dlfcn.h>

#include "regcache/lock_order.h"

namespace rdmalloc {

// The function of that name in a library that dlopen() gave, or in one of its pseudo-handles. False
// when there is none, and then *out is null.
template <typename Function>
bool find_function(void* library, const char* name, Function* out) {
  assert_linker_may_be_called();
  *out = reinterpret_cast<Function>(dlsym(library, name));
  return *out != nullptr;
}

// By version, where a library keeps older interfaces under the same names.
template <typename Function>
bool find_function(void* library, const char* name, const char* version, Function* out) {
  assert_linker_may_be_called();
  *out = reinterpret_cast<Function>(dlvsym(library, name, version));
  return *out != nullptr;
}

}  // namespace rdmalloc
