// librdmalloc-ucx.so: with librdmalloc-verbs.so beside it, lets that answer UCX's registrations of
// malloc'd buffers (ucx_and_verbs.h). Alone it maps the heap into each UCP context that the program
// or its MPI library creates, so that UCX finds malloc'd buffers registered.
//
// ucp_init is an inline function that calls ucp_init_version, so interposing that and ucp_cleanup
// covers every context. ucp_mem_map and ucp_mem_query serve programs that map malloc'd memory
// themselves: up to UCX 1.14, two mappings in one region have one handle, and querying it returns
// the newest (mappings.h). Interposed by name only: lookups in a handle of dlopen do not come
// here.
#include <pthread.h>
#include <ucp/api/ucp.h>

#include "include/rdmalloc/rdmalloc.h"
#include "regcache/preload/ucx/contexts.h"
#include "regcache/preload/ucx/mappings.h"
#include "regcache/preload/ucx/parameters.h"
#include "regcache/preload/ucx/real.h"
#include "regcache/preload/ucx_and_verbs.h"

namespace rdmalloc::shim {
namespace {

constinit ContextTable contexts;
constinit MappingTable mappings;

void before_fork() {
  contexts.before_fork();
  mappings.before_fork();
}

void after_fork() {
  mappings.after_fork();
  contexts.after_fork();
}

bool maps_the_heap() { return &rdm_shim_answers_ucx == nullptr; }

[[gnu::constructor]] void start() { (void)pthread_atfork(before_fork, after_fork, after_fork); }

}  // namespace
}  // namespace rdmalloc::shim

using namespace rdmalloc::shim;  // NOLINT(google-build-using-namespace): C functions follow

extern "C" {

void rdm_shim_serves_ucx(void) {}

RDM_API ucs_status_t ucp_init_version(unsigned major, unsigned minor, const ucp_params_t* params,
                                      const ucp_config_t* config, ucp_context_h* out) {
  const RealUcx* real = real_ucx();
  if (real == nullptr) return UCS_ERR_UNSUPPORTED;
  if (!maps_the_heap()) return real->init_version(major, minor, params, config, out);
  const SharedParameters shared(params);
  const ucs_status_t status = real->init_version(major, minor, shared.get(), config, out);
  if (status == UCS_OK) contexts.open(*out);
  return status;
}

// Close the heap first: UCX aborts the program if anything is still mapped.
RDM_API void ucp_cleanup(ucp_context_h context) {
  contexts.close(context);
  const RealUcx* real = real_ucx();
  if (real != nullptr) real->cleanup(context);
}

RDM_API ucs_status_t ucp_mem_map(ucp_context_h context, const ucp_mem_map_params_t* params,
                                 ucp_mem_h* out) {
  const RealUcx* real = real_ucx();
  if (real == nullptr) return UCS_ERR_UNSUPPORTED;
  const ucs_status_t status = real->mem_map(context, params, out);
  if (status == UCS_OK) mappings.note(*out, *params);
  return status;
}

RDM_API ucs_status_t ucp_mem_query(const ucp_mem_h handle, ucp_mem_attr_t* attributes) {
  const RealUcx* real = real_ucx();
  if (real == nullptr) return UCS_ERR_UNSUPPORTED;
  const ucs_status_t status = real->mem_query(handle, attributes);
  ucp_mem_attr_t range{};
  range.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS | UCP_MEM_ATTR_FIELD_LENGTH;
  const uint64_t wanted = attributes->field_mask & range.field_mask;
  if (status != UCS_OK || wanted == 0 || real->mem_query(handle, &range) != UCS_OK) return status;
  mappings.narrow(handle, &range);
  if ((wanted & UCP_MEM_ATTR_FIELD_ADDRESS) != 0) attributes->address = range.address;
  if ((wanted & UCP_MEM_ATTR_FIELD_LENGTH) != 0) attributes->length = range.length;
  return status;
}

}  // extern "C"
