// What the shims for UCX and for verbs tell each other when both are preloaded: UCX's registrations
// are then answered when UCX asks for them, with all rights, and the heap is not mapped into its
// contexts in advance. So no region is registered that UCX would not have registered a part of, on
// no card that it does not use.
//
// Each library exports one of the functions and refers to the other weakly: null if it is not
// there.
#pragma once

#include "include/rdmalloc/rdmalloc.h"

extern "C" {

// Of librdmalloc-ucx.so: the user asked for UCX to be served, with the rights that this takes.
[[gnu::weak]] RDM_API void rdm_shim_serves_ucx(void);

// Of librdmalloc-verbs.so: it answers UCX's registrations.
[[gnu::weak]] RDM_API void rdm_shim_answers_ucx(void);

}  // extern "C"
