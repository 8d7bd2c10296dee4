// An interface between librdmalloc and the shim for libfabric, which is built and installed with
// it, not for others.
#pragma once

#include <stdint.h>

#include "include/rdmalloc/rdmalloc.h"

struct fid_domain;

extern "C" {

// Like rdm_domain_open_ofi, for a domain of which the caller knows that it serves any endpoint, and
// that the kernel charges the process for what it registers. So nothing is registered by trial,
// which would be one registration more than without us.
RDM_API int rdm_shim_open_known_ofi(fid_domain* domain, uint64_t access,
                                    const rdm_domain_options* options, rdm_domain** out);

// 1: pages of the range moved away after the program freed what was there. What libfabric has
// registered of the region around them must not serve a request for them. 0: not, or the program
// itself has put something there.
RDM_API int rdm_shim_has_moved(const void* address, size_t length);

}  // extern "C"
