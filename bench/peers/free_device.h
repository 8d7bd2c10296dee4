// A device that costs nothing, so that measurements on it show the cost of the registration cache
// alone.
#pragma once

#include "bench/peers/ucx_cache.h"
#include "rdmalloc/backend.h"
#include "rdmalloc/rdmalloc.h"

namespace rdmalloc::bench {

// The backend's operations; their context is null.
const rdm_backend& free_backend();

// Opens a domain on it; fills in `size` and `error` of the options. Exits if it cannot be opened.
rdm_domain* open_free_domain(rdm_domain_options options = {});

#if BENCH_HAS_UCX
// The same for UCX's cache.
Registrar& free_registrar();
#endif

// The number of registrations ever made on it.
size_t free_registrations();

}  // namespace rdmalloc::bench
