// What all functions that open a domain have in common: they read the caller's options, and put the
// message of a failure where the caller asked for it, and into rdm_last_error().
#pragma once

#include "allocator/last_error.h"
#include "include/rdmalloc/rdmalloc.h"
#include "regcache/caller_struct.h"

namespace rdmalloc {

// open(rdm_domain_options& options) does the opening; on failure it writes the reason to
// options.error.
template <typename Open>
int open_domain(const rdm_domain_options* given, rdm_domain** out, Open open) {
  if (out == nullptr) return fail(RDM_INVALID, "there is no place for the domain");
  rdm_domain_options options;
  if (!read_options(given, &options)) {
    return fail(RDM_INVALID, "the options lack their size: set it to sizeof(rdm_domain_options)");
  }
  char* const error = options.error;
  const size_t error_size = options.error_size;
  char why[kLongestError] = "the device does not say why";
  options.error = why;
  options.error_size = sizeof why;
  const int status = open(options);
  if (status == RDM_OK) return status;
  (void)fail(status, why, error, error_size);
  return fail(status, why);
}

}  // namespace rdmalloc
