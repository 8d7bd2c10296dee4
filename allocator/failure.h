#pragma once

#include <stddef.h>
#include <string.h>

namespace rdmalloc {

// Copies the sentence to where the caller asked for it, cut to `why_size` bytes, and returns the
// status. Works inside malloc.
inline int fail(int status, const char* sentence, char* why, size_t why_size) {
  if (why_size == 0) return status;
  const size_t length = strnlen(sentence, why_size - 1);
  memcpy(why, sentence, length);
  why[length] = '\0';
  return status;
}

}  // namespace rdmalloc
