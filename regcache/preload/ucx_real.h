// libucp itself, behind the functions that the shim stands in front of.
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

// Found at the first call, which somebody makes who has libucp loaded. Null when there is none, as
// for a program that came to the shim by chance. Thread-safe.
const RealUcx* real_ucx();

}  // namespace rdmalloc::shim
