// libucp itself, behind the functions that the shim interposes.
#pragma once

#include "regcache/backends/ucx/library.h"

namespace rdmalloc::shim {

using RealUcx = UcxLibrary;

// Found at the first call, whose caller normally has libucp loaded. Null if there is none, as in a
// program that calls the shim by accident. Thread-safe.
const RealUcx* real_ucx();

}  // namespace rdmalloc::shim
