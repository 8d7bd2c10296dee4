// librdmalloc-ucx.so: each UCP context that the program, or its MPI library, makes has the heap
// mapped into it, so that UCX finds malloc'd buffers registered.
//
// ucp_init is an inline function that calls ucp_init_version, and so these two names reach every
// context. Interposed by name alone; who asks a handle of dlopen for them does not come here.
#include <pthread.h>
#include <ucp/api/ucp.h>

#include "include/rdmalloc/rdmalloc.h"
#include "regcache/preload/ucx_contexts.h"
#include "regcache/preload/ucx_parameters.h"
#include "regcache/preload/ucx_real.h"

namespace rdmalloc::shim {
namespace {

constinit ContextTable contexts;

[[gnu::constructor]] void start() {
  (void)pthread_atfork([] { contexts.before_fork(); }, [] { contexts.after_fork(); },
                       [] { contexts.after_fork(); });
}

}  // namespace
}  // namespace rdmalloc::shim

using namespace rdmalloc::shim;  // NOLINT(google-build-using-namespace): C functions follow

extern "C" {

RDM_API ucs_status_t ucp_init_version(unsigned major, unsigned minor, const ucp_params_t* params,
                                      const ucp_config_t* config, ucp_context_h* out) {
  const RealUcx* real = real_ucx();
  if (real == nullptr) return UCS_ERR_UNSUPPORTED;
  const SharedParameters shared(params);
  const ucs_status_t status = real->init_version(major, minor, shared.get(), config, out);
  if (status == UCS_OK) contexts.open(*out);
  return status;
}

// The heap goes first: UCX takes the program down over what is still mapped.
RDM_API void ucp_cleanup(ucp_context_h context) {
  contexts.close(context);
  const RealUcx* real = real_ucx();
  if (real != nullptr) real->cleanup(context);
}

}  // extern "C"
