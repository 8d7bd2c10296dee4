// How often a test repeats its steps: fewer times under a sanitizer or an emulator, where each
// takes some ten times as long, and what it looks for shows in the first of them.
#pragma once

#include <stddef.h>

namespace rdmalloc::test {

constexpr size_t rounds(size_t count) {
#if defined(RDM_SANITIZED) || defined(RDM_EMULATED)
  return count / 4;
#else
  return count;
#endif
}

}  // namespace rdmalloc::test
