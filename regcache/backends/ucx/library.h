// libucp itself, and of libucs what is needed: what the backend calls, and what is behind the
// functions that the shim interposes.
//
// Only the libucp that the process has loaded is used: a context of one copy means nothing to
// another. A process that has a context has loaded it.
#pragma once

#include <ucp/api/ucp.h>

#include <cstdint>

namespace rdmalloc {

// Tests substitute others.
struct UcxLibrary {
  ucs_status_t (*init_version)(unsigned, unsigned, const ucp_params_t*, const ucp_config_t*,
                               ucp_context_h*) = nullptr;
  void (*cleanup)(ucp_context_h) = nullptr;
  ucs_status_t (*mem_map)(ucp_context_h, const ucp_mem_map_params_t*, ucp_mem_h*) = nullptr;
  ucs_status_t (*mem_unmap)(ucp_context_h, ucp_mem_h) = nullptr;
  ucs_status_t (*mem_query)(const ucp_mem_h, ucp_mem_attr_t*) = nullptr;
  ucs_status_t (*context_query)(ucp_context_h, ucp_context_attr_t*) = nullptr;
  const char* (*status_string)(ucs_status_t) = nullptr;  // may be null
  // Not a function of UCX, but the backend's: how many bytes registrations have pinned in this
  // process (VmPin).
  uint64_t (*pinned_memory)() = nullptr;
};

// Finds the libucp that is loaded. Returns null and sets `*out`, or returns a sentence.
// Thread-safe. Who interposes the functions by name is given those behind its own; others are given
// libucp's, whoever interposes them: the shim must not record our own calls.
enum class UcxCaller : uint8_t { kCalls, kInterposes };
const char* find_ucx_library(UcxCaller caller, UcxLibrary* out);

}  // namespace rdmalloc
