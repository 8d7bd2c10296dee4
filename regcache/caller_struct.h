// Callers' structs that give their own size, and may be shorter or longer than ours.
#pragma once

#include <stddef.h>
#include <string.h>

namespace rdmalloc {

// Copies what the caller gave, and zeroes the fields that it did not know of. False: null, or a
// size below `least` bytes, which cannot be right.
template <class Struct>
bool read_struct(const Struct* given, size_t least, Struct* out) {
  *out = {};
  if (given == nullptr || given->size < least) return false;
  memcpy(out, given, given->size < sizeof *out ? given->size : sizeof *out);
  return true;
}

// Reads the options of a domain or a cache; null means the defaults.
template <class Options>
bool read_options(const Options* given, Options* options) {
  if (!read_struct(given, sizeof given->size, options) && given != nullptr) return false;
  options->size = sizeof *options;
  if (options->error == nullptr) options->error_size = 0;
  return true;
}

}  // namespace rdmalloc
