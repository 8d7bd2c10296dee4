// In place of the libfabric backend where it was built without the headers of libfabric.
#include <stdio.h>

#include "include/rdmalloc/ofi.h"
#include "regcache/last_error.h"

namespace {

constexpr char kWhy[] =
    "this librdmalloc was built without libfabric: build it with libfabric-dev installed";

}  // namespace

extern "C" int rdm_domain_open_ofi(fid_domain*, uint64_t, const rdm_domain_options* options,
                                   rdm_domain**) {
  if (options != nullptr && options->size >= sizeof *options && options->error != nullptr) {
    snprintf(options->error, options->error_size, "%s", kWhy);
  }
  return RDM_UNSUPPORTED;
}

extern "C" int rdm_ofi_import_monitor() { return rdmalloc::fail(RDM_UNSUPPORTED, kWhy); }
