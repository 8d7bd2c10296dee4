// Replaces the libfabric backend in builds without libfabric's headers.
#include "include/rdmalloc/ofi.h"
#include "regcache/domain/open_domain.h"

namespace {

constexpr char kWhy[] =
    "this librdmalloc was built without libfabric: build it with libfabric-dev installed";

}  // namespace

extern "C" int rdm_domain_open_ofi(fid_domain*, uint64_t, const rdm_domain_options* given,
                                   rdm_domain** out) {
  return rdmalloc::open_domain(given, out, [](const rdm_domain_options& options) {
    return rdmalloc::fail(RDM_UNSUPPORTED, kWhy, options.error, options.error_size);
  });
}

extern "C" int rdm_ofi_import_monitor() { return rdmalloc::fail(RDM_UNSUPPORTED, kWhy); }
