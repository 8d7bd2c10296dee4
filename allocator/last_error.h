// The sentence that goes with the last status other than RDM_OK that a thread was told:
// rdm_last_error(). No allocation; may run inside malloc.
#pragma once

#include <stddef.h>

#include "allocator/failure.h"

namespace rdmalloc {

constexpr size_t kLongestError = 320;

// The calling thread's, to be read.
const char* last_error();

// The calling thread's, to be written to: kLongestError bytes.
char* new_last_error();

inline int fail(int status, const char* sentence) {
  return fail(status, sentence, new_last_error(), kLongestError);
}

// The same for a sentence that is there for ever: a word is written, and nothing is copied. For
// what may fail often, as lookups do.
int fail_often(int status, const char* literal);

}  // namespace rdmalloc
