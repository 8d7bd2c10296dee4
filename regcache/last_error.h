// The sentence that goes with the last failure that a thread was told of: rdm_last_error().
#pragma once

#include "regcache/failure.h"

namespace rdmalloc {

constexpr size_t kLongestError = 320;

// The calling thread's; kLongestError bytes.
char* last_error();

inline int fail(int status, const char* sentence) {
  return fail(status, sentence, last_error(), kLongestError);
}

}  // namespace rdmalloc
