// Compiling this is the test: the header is valid in any C++ standard, has C linkage, and is
// self-contained.
#include <rdmalloc/adapters.h>
#include <rdmalloc/backend.h>
#include <rdmalloc/inline.h>
#include <rdmalloc/ofi.h>
#include <rdmalloc/pool.h>
#include <rdmalloc/rdmalloc.h>
#include <rdmalloc/shm.h>
#include <rdmalloc/shm_plan.h>

static int (*const owns)(const void*) = rdm_owns;
extern const void* rdm_header_cxx_test;
const void* rdm_header_cxx_test = reinterpret_cast<const void*>(&owns);
