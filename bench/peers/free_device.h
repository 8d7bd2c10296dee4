// A device that costs nothing, for whoever caches registrations: what is measured on it is the
// cache.
#pragma once

#include "bench/peers/ucx_cache.h"
#include "rdmalloc/backend.h"
#include "rdmalloc/rdmalloc.h"

namespace rdmalloc::bench {

// The operations; their context is null.
const rdm_backend& free_backend();

// A domain on it. Of the options, `size` and `error` are filled in. Exits when it cannot be opened.
rdm_domain* open_free_domain(rdm_domain_options options = {});

#if BENCH_HAS_UCX
// The same for UCX's cache.
Registrar& free_registrar();
#endif

// Registrations that were ever made on it.
size_t free_registrations();

}  // namespace rdmalloc::bench
