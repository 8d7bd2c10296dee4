// Replaces the UCX backend in builds without UCX's headers.
#include "regcache/domain/open_domain.h"

extern "C" int rdm_domain_open_ucx(ucp_context*, const rdm_domain_options* given,
                                   rdm_domain** out) {
  return rdmalloc::open_domain(given, out, [](const rdm_domain_options& options) {
    return rdmalloc::fail(RDM_UNSUPPORTED,
                          "this librdmalloc was built without UCX: build it with libucx-dev "
                          "installed",
                          options.error, options.error_size);
  });
}
