// In place of the verbs backend where it was built without the headers of libibverbs.
#include <stdio.h>

#include "include/rdmalloc/rdmalloc.h"

extern "C" int rdm_domain_open_verbs(ibv_pd*, int, const rdm_domain_options* options,
                                     rdm_domain**) {
  if (options != nullptr && options->size >= sizeof *options && options->error != nullptr) {
    snprintf(options->error, options->error_size,
             "this librdmalloc was built without verbs: build it with libibverbs-dev installed");
  }
  return RDM_UNSUPPORTED;
}
