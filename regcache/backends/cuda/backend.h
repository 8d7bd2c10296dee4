// Registering with the CUDA driver, for copies that are true DMA: rdm_domain_open_cuda.
//
// The driver allocates and takes locks, so nothing here is ever called inside malloc. It pins pages
// itself and charges them to no account: neither VmPin nor RLIMIT_MEMLOCK counts them (its kernel
// module, which is public, calls get_user_pages() and charges nothing). It registers memory once
// per process, for all contexts, so domains share the heap's regions (regions.h).
#pragma once

#include <atomic>
#include <cstddef>

#include "include/rdmalloc/backend.h"
#include "regcache/backends/cuda/library.h"

namespace rdmalloc {

// The context of one domain. Set up by one thread, used by any; holds no lock. In a child of fork
// it may only be destroyed: it refuses everything else without calling the driver.
//
// In a key, lkey and rkey together hold the registered address, lower half first. The handle is the
// address at which the device sees the memory, or null if the memory serves copies only.
class CudaBackend {
 public:
  // The operations, with a CudaBackend made by create() as their context.
  static const rdm_backend kOperations;

  // `context`: null for the current one. Returns RDM_OK and sets *out, or returns an error status
  // with a sentence.
  static int create(const CudaLibrary& library, CudaContext context, CudaBackend** out, char* why,
                    size_t why_size);
  static void destroy(CudaBackend* backend, bool forked = false);

  void limits(rdm_backend_limits* out) const;
  int register_memory(const rdm_backend_request& request, rdm_backend_key* out, char* why,
                      size_t why_size);
  int deregister_memory(const rdm_backend_key& key);

 private:
  int query(char* why, size_t why_size);
  unsigned flags_of(const rdm_backend_request& request) const;
  CudaStatus call(const rdm_backend_request& request, bool shared, rdm_backend_key* out) const;
  int explain(const rdm_backend_request& request, CudaStatus status, char* why,
              size_t why_size) const;
  int register_region(const rdm_backend_request& request, rdm_backend_key* out, char* why,
                      size_t why_size);
  bool unregister(void* base) const;

  CudaHome home_;
  bool registers_read_only_ = false;  // the device may be told that it only reads
  std::atomic<size_t> count_{0};      // registered now
};

}  // namespace rdmalloc
