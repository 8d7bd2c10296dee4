// What rdm_domain_open_cuda() and rdm_remote_cache_open_cuda() need to link: the backend's unit
// tests do not link the library's own definitions. Weak, so a test that does link those uses them.
#include "include/rdmalloc/remote.h"

extern "C" {

[[gnu::weak]] int rdm_domain_open(const rdm_backend*, void*, const rdm_domain_options*,
                                  rdm_domain**) {
  return RDM_UNSUPPORTED;
}

[[gnu::weak]] int rdm_remote_cache_open(const rdm_remote_operations*, void*,
                                        const rdm_remote_options*, rdm_remote_cache**) {
  return RDM_UNSUPPORTED;
}
}
