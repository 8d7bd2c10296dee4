// In place of the UCX backend where it was built without the headers of UCX.
#include <stdio.h>

#include "include/rdmalloc/rdmalloc.h"

extern "C" int rdm_domain_open_ucx(ucp_context*, const rdm_domain_options* options, rdm_domain**) {
  if (options != nullptr && options->size >= sizeof *options && options->error != nullptr) {
    snprintf(options->error, options->error_size,
             "this librdmalloc was built without UCX: build it with libucx-dev installed");
  }
  return RDM_UNSUPPORTED;
}
