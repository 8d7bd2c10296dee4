// libibverbs itself, behind the functions that the shim interposes.
#pragma once

#include <errno.h>

#include "regcache/backends/verbs/library.h"

namespace rdmalloc::shim {

using RealVerbs = VerbsLibrary;

// Found at the first call, which somebody with a protection domain makes. Null, with errno ENOSYS,
// when there is none. Thread-safe.
inline const RealVerbs* real_verbs() {
  const char* missing = nullptr;
  const RealVerbs* const real = find_verbs_library(&missing);
  if (real == nullptr) errno = ENOSYS;
  return real;
}

}  // namespace rdmalloc::shim
