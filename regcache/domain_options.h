// The options of a domain as its caller gave them, whose struct may be shorter or longer than ours.
#pragma once

#include <string.h>

#include "include/rdmalloc/rdmalloc.h"

namespace rdmalloc {

// Defaults for what was not given. False: a size that cannot be right.
inline bool read_options(const rdm_domain_options* given, rdm_domain_options* options) {
  *options = {};
  if (given != nullptr) {
    if (given->size < sizeof given->size) return false;
    memcpy(options, given, given->size < sizeof *options ? given->size : sizeof *options);
  }
  options->size = sizeof *options;
  if (options->error == nullptr) options->error_size = 0;
  return true;
}

}  // namespace rdmalloc
