// libucp itself, behind the functions that the shim interposes.
#pragma once

#include <ucp/api/ucp.h>

namespace rdmalloc::shim {

struct RealUcx {
  ucs_status_t (*init_version)(unsigned, unsigned, const ucp_params_t*, const ucp_config_t*,
                               ucp_context_h*) = nullptr;
  void (*cleanup)(ucp_context_h) = nullptr;
  ucs_status_t (*mem_map)(ucp_context_h, const ucp_mem_map_params_t*, ucp_mem_h*) = nullptr;
  ucs_status_t (*mem_query)(const ucp_mem_h, ucp_mem_attr_t*) = nullptr;
};

// Found at the first call, whose caller normally has libucp loaded. Null if there is none, as in a
// program that calls the shim by accident. Thread-safe.
const RealUcx* real_ucx();

}  // namespace rdmalloc::shim
