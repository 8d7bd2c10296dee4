#include <stdio.h>
#include <stdlib.h>

#include "bench/peers/free_device.h"

namespace rdmalloc::bench {

rdm_domain* open_free_domain(rdm_domain_options options) {
  char why[256] = "";
  options.size = sizeof options;
  options.error = why;
  options.error_size = sizeof why;
  rdm_domain* domain = nullptr;
  if (rdm_domain_open(&free_backend(), nullptr, &options, &domain) == RDM_OK) return domain;
  fprintf(stderr, "rdm_domain_open: %s\n", why);
  exit(EXIT_FAILURE);
}

}  // namespace rdmalloc::bench
