// The sentence that explains the last status other than RDM_OK that a thread received:
// rdm_last_error(). No allocation; may run inside malloc.
#pragma once

#include <stddef.h>

#include "allocator/failure.h"

namespace rdmalloc {

constexpr size_t kLongestError = 320;

// The calling thread's, for reading.
const char* last_error();

// The calling thread's, for writing: kLongestError bytes.
char* new_last_error();

inline int fail(int status, const char* sentence) {
  return fail(status, sentence, new_last_error(), kLongestError);
}

// The same for a sentence in static storage: one word is written, and nothing is copied. For calls
// that may fail often, such as lookups.
int fail_often(int status, const char* literal);

}  // namespace rdmalloc
