/* Compiling this is the test: the header is plain C11 without extensions, and self-contained. */
#include <rdmalloc/adapters.h>
#include <rdmalloc/backend.h>
#include <rdmalloc/inline.h>
#include <rdmalloc/ofi.h>
#include <rdmalloc/pool.h>
#include <rdmalloc/rdmalloc.h>
#include <rdmalloc/shm.h>
#include <rdmalloc/shm_plan.h>

static const char *(*const say)(int) = rdm_strerror;
const void *rdm_header_c_test(void);
const void *rdm_header_c_test(void) { return (const void *)&say; }
