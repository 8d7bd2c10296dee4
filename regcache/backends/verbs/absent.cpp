// Replaces the verbs backend in builds without libibverbs' headers.
#include "regcache/domain/open_domain.h"

extern "C" int rdm_domain_open_verbs(ibv_pd*, int, const rdm_domain_options* given,
                                     rdm_domain** out) {
  return rdmalloc::open_domain(given, out, [](const rdm_domain_options& options) {
    return rdmalloc::fail(RDM_UNSUPPORTED,
                          "this librdmalloc was built without verbs: build it with "
                          "libibverbs-dev installed",
                          options.error, options.error_size);
  });
}
