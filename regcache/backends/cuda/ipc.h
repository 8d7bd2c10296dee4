// CUDA IPC: makes handles of device memory for other processes, and opens theirs and keeps them
// open: rdm_cuda_export, rdm_remote_cache_open_cuda.
#pragma once

#include "include/rdmalloc/remote.h"
#include "regcache/backends/cuda/library.h"

namespace rdmalloc {

// The context of one cache of opened handles. Set up by one thread, used by any; holds no lock. In
// a child of fork it may only be destroyed; it opens and closes nothing there.
class CudaIpc {
 public:
  // The operations, with a CudaIpc made by create() as their context.
  static const rdm_remote_operations kOperations;

  // `context`: null for the current one. Returns RDM_OK and sets *out, or returns an error status
  // with a sentence.
  static int create(const CudaLibrary& library, CudaContext context, CudaIpc** out, char* why,
                    size_t why_size);
  static void destroy(CudaIpc* ipc);

  int open(const rdm_remote_memory& memory, void** address, char* why, size_t why_size);
  int close(void* address);

 private:
  CudaStatus call(const CudaIpcHandle& handle, CudaAddress* address, bool* is_own) const;

  CudaHome home_;
};

}  // namespace rdmalloc
