// An interface between librdmalloc and the shims that are built and installed with it, not for
// others.
//
// Keys of a domain that are held until their user lets go of them, so that registrations nobody
// uses can be given back when a registration of the program's own lacks room.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "include/rdmalloc/rdmalloc.h"

extern "C" {

// Like rdm_lookup, and as fast except for two atomic steps. The key stays registered until
// rdm_shim_let_go(domain, *use), and must not be used after that. RDM_NOT_REGISTERED also while the
// region is being given back. A domain uses either this or rdm_lookup, not both. Thread-safe; in a
// child of fork like rdm_lookup.
RDM_API int rdm_shim_hold(rdm_domain* domain, const void* address, size_t length, rdm_mr* out,
                          uint32_t* use);
// The domain must not have been closed since. Thread-safe, also in a child of fork.
RDM_API void rdm_shim_let_go(rdm_domain* domain, uint32_t use);

// From now on the domain registers regions only while so many bytes of the memlock limit stay free
// for others. Right after it was opened with RDM_DOMAIN_WHEN_ASKED.
RDM_API void rdm_shim_leave_free(rdm_domain* domain, size_t bytes);

// Call this after the program's own registration of `length` bytes was refused with ENOMEM in this
// thread. 1: these domains gave something back, or did so just now for another thread; try once
// more and then call rdm_shim_end_room. Until then domains register no region. 0: there is nothing
// to give back, or not enough. If the memlock limit is exhausted, all of the `count` domains give
// back; otherwise only the first `of_device`, because device and kernel do not tell what they lack.
// Calls the domains' devices to deregister. Takes none of our locks, and waits only for other
// threads in this function and for the registrar. Thread-safe; not inside malloc. In a child of
// fork 0 for its parent's domains.
RDM_API int rdm_shim_make_room(rdm_domain* const* domains, size_t count, size_t of_device,
                               size_t length);
RDM_API void rdm_shim_end_room(void);

}  // extern "C"
