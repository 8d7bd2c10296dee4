// Registering with the CUDA driver, for copies that are true DMA: rdm_domain_open_cuda.
//
// The driver allocates and takes locks, so nothing here is ever called inside malloc. It pins pages
// by itself and charges them to nobody: neither VmPin nor RLIMIT_MEMLOCK knows of them (its kernel
// module, which is public, calls get_user_pages() and no account). It registers memory once in a
// process, for all contexts: domains share the heap's regions (cuda_regions.h).
#pragma once

#include <atomic>
#include <cstddef>

#include "include/rdmalloc/backend.h"
#include "regcache/backends/cuda_library.h"

namespace rdmalloc {

// The context of one domain. Set up by one thread, used by any; holds no lock. In a child of fork
// it may only be destroyed, but refuses everything else without asking the driver.
//
// Of a key, lkey and rkey together are the address that was registered, lower half first, and the
// handle is where the device sees it; null where the device does not, and copies only.
class CudaBackend {
 public:
  // The operations, with a CudaBackend made by create() as their context.
  static const rdm_backend kOperations;

  // `context`: null for the current one. RDM_OK and *out, or a reason and a sentence.
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
