// Registers memory with a UCP context of UCX through ucp_mem_map: rdm_domain_open_ucx.
//
// UCX allocates, takes locks and calls drivers, so nothing here is ever called inside malloc.
#pragma once

#include <ucp/api/ucp.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "include/rdmalloc/backend.h"
#include "regcache/backends/ucx/library.h"
#include "regcache/domain/pinned_memory.h"

namespace rdmalloc {

// The context of one domain: a UCP context. Set up by one thread, used by any; holds no lock,
// because UCX locks the context. In a child of fork it may only be destroyed.
class UcxBackend {
 public:
  UcxBackend(const UcxLibrary& library, ucp_context_h context)
      : library_(library), context_(context) {}

  // The operations, with a UcxBackend made by create() as their context.
  static const rdm_backend kOperations;

  // Checks that other threads may use the context, and finds out by trial what the kernel charges
  // for a mapping. Returns RDM_OK and sets *out, or returns an error status with a sentence.
  static int create(const UcxLibrary& library, ucp_context_h context, UcxBackend** out, char* why,
                    size_t why_size);
  static void destroy(UcxBackend* backend, bool forked = false);

  void limits(rdm_backend_limits* out) const;
  int register_memory(const rdm_backend_request& request, rdm_backend_key* out, char* why,
                      size_t why_size);
  int deregister_memory(const rdm_backend_key& key);

 private:
  int check_threads(char* why, size_t why_size) const;
  int try_mapping(char* why, size_t why_size);
  bool leaves_room(size_t bytes) const;
  ucs_status_t map(void* base, size_t length, ucp_mem_h* out) const;

  const UcxLibrary library_;
  ucp_context_h const context_;
  bool pins_ = false;              // some transport pins what is mapped, which the kernel charges
  std::atomic<size_t> mapped_{0};  // bytes of regions: unmapped only when the domain ends
  std::atomic<uint32_t> serial_{0};
};

// Somewhat more than UCX itself pins for a context with its defaults and one network card: buffers
// for small messages and for receiving, allocated when its workers are created.
inline constexpr size_t kUcxOwnPins = size_t{64} << 20;

// What was tried, for explain_ucx_failure.
struct UcxAttempt {
  size_t length;  // bytes
  ucs_status_t status;
  bool pins;
};

// Explains why a mapping failed, by cause, and what to do. Returns the status for the caller.
int explain_ucx_failure(const UcxLibrary& library, const UcxAttempt& attempt, char* why,
                        size_t why_size);

// For a mapping that was not tried, because the rest of the limit is UCX's own.
int refuse_for_room(const UcxLibrary& library, size_t length, char* why, size_t why_size);

}  // namespace rdmalloc
