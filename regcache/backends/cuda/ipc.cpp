#include "regcache/backends/cuda/ipc.h"

#include <stdlib.h>
#include <string.h>

#include <new>

#include "allocator/failure.h"
#include "allocator/last_error.h"
#include "include/rdmalloc/backend.h"

namespace rdmalloc {

static_assert(sizeof(CudaIpcHandle) <= RDM_REMOTE_MAX_HANDLE);

int CudaIpc::create(const CudaLibrary& library, CudaContext context, CudaIpc** out, char* why,
                    size_t size) {
  void* memory = malloc(sizeof(CudaIpc));
  if (memory == nullptr) return fail(RDM_SYSTEM, "no memory for bookkeeping", why, size);
  auto* ipc = new (memory) CudaIpc;
  const int status = ipc->home_.settle(library, context, why, size);
  if (status == RDM_OK) {
    *out = ipc;
  } else {
    destroy(ipc);
  }
  return status;
}

void CudaIpc::destroy(CudaIpc* ipc) {
  ipc->~CudaIpc();
  free(ipc);
}

CudaStatus CudaIpc::call(const CudaIpcHandle& handle, CudaAddress* address, bool* is_own) const {
  const CudaLibrary& library = home_.library();
  const CudaCurrent current(library, home_.context());
  if (current.status() != kCudaSuccess) return current.status();
  const CudaStatus status = library.ipc_open(address, handle, kCudaLazyEnablePeerAccess);
  CudaDevice device = 0;
  // In a context that is alive, the driver returns this for handles of its own process.
  *is_own = status == kCudaInvalidContext && library.get_device(&device) == kCudaSuccess;
  return status;
}

int CudaIpc::open(const rdm_remote_memory& memory, void** out, char* why, size_t size) {
  if (home_.is_in_child()) {
    return fail(RDM_SYSTEM, "this is a child of fork, where the parent's CUDA cannot be used", why,
                size);
  }
  CudaIpcHandle handle;
  if (memory.handle == nullptr || memory.handle_size != sizeof handle) {
    return fail(RDM_INVALID, "this is no handle that rdm_cuda_export() made: its size differs", why,
                size);
  }
  memcpy(&handle, memory.handle, sizeof handle);
  CudaAddress address = 0;
  bool is_own = false;
  const CudaStatus status = call(handle, &address, &is_own);
  if (status == kCudaSuccess) {
    *out = reinterpret_cast<void*>(address);
    return RDM_OK;
  }
  if (is_own) {
    return fail(RDM_INVALID,
                "the handle is of this process's own memory, and CUDA opens those of other "
                "processes only: use the address itself",
                why, size);
  }
  CudaAttempt attempt;
  attempt.step = CudaAttempt::Step::kOpen;
  attempt.status = status;
  attempt.length = memory.length;
  return explain_cuda_failure(home_.library(), attempt, why, size);
}

// A mapping whose context is gone is closed.
int CudaIpc::close(void* address) {
  if (home_.is_in_child()) return RDM_OK;
  const CudaCurrent current(home_.library(), home_.context());
  CudaStatus status = current.status();
  if (status == kCudaSuccess) {
    status = home_.library().ipc_close(reinterpret_cast<CudaAddress>(address));
  }
  return status == kCudaSuccess || is_cuda_gone(status) ? RDM_OK : RDM_SYSTEM;
}

const rdm_remote_operations CudaIpc::kOperations = {
    sizeof(rdm_remote_operations),
    "cuda",
    [](void* ipc, const rdm_remote_memory* memory, void** address, char* why, size_t why_size) {
      return static_cast<CudaIpc*>(ipc)->open(*memory, address, why, why_size);
    },
    [](void* ipc, void* address, size_t) { return static_cast<CudaIpc*>(ipc)->close(address); },
    [](void* ipc, int) { CudaIpc::destroy(static_cast<CudaIpc*>(ipc)); },
};

namespace {

// For the allocation that holds `address`: its base, its length and its handle.
CudaStatus export_current(const CudaLibrary& library, CudaAddress address, CudaAddress* base,
                          size_t* length, CudaIpcHandle* handle) {
  CudaContext context = nullptr;
  CudaStatus status = library.get_pointer_attribute(&context, kCudaPointerContext, address);
  if (status != kCudaSuccess) return status;
  unsigned type = 0;
  status = library.get_pointer_attribute(&type, kCudaPointerMemoryType, address);
  if (status != kCudaSuccess) return status;
  if (type != kCudaMemoryTypeDevice) return kCudaInvalidValue;
  // Memory of a pool has no context.
  if (context == nullptr) return kCudaNotSupported;
  const CudaCurrent current(library, context);
  status = current.status();
  if (status == kCudaSuccess) status = library.get_address_range(base, length, address);
  if (status != kCudaSuccess) return status;
  status = library.ipc_get(handle, *base);
  // The check above showed that this is CUDA memory of the device, so it is of a kind without
  // handles.
  return status == kCudaInvalidValue ? kCudaNotSupported : status;
}

// Where to write the message if opening fails; nowhere if the caller gave no buffer.
struct Place {
  char* error;
  size_t size;
};

Place place_of(const rdm_remote_options* options) {
  if (options == nullptr || options->size < sizeof *options || options->error == nullptr) {
    return {nullptr, 0};
  }
  return {options->error, options->error_size};
}

// On failure, last_error() has the message.
int open_ipc(CudaContext context, CudaIpc** out) {
  CudaLibrary library;
  const int found = find_cuda_library(&library, new_last_error(), kLongestError);
  if (found != RDM_OK) return found;
  return CudaIpc::create(library, context, out, new_last_error(), kLongestError);
}

int export_memory(const void* address, rdm_remote_memory* out, void* room) {
  char* const why = new_last_error();
  CudaLibrary library;
  const int found = find_cuda_library(&library, why, kLongestError);
  if (found != RDM_OK) return found;
  CudaAddress base = 0;
  size_t length = 0;
  CudaIpcHandle handle;
  CudaAttempt attempt;
  attempt.step = CudaAttempt::Step::kExport;
  attempt.base = address;
  attempt.status = library.init(0);
  if (attempt.status == kCudaSuccess) {
    attempt.status =
        export_current(library, reinterpret_cast<CudaAddress>(address), &base, &length, &handle);
  }
  if (attempt.status != kCudaSuccess) {
    return explain_cuda_failure(library, attempt, why, kLongestError);
  }
  memcpy(room, &handle, sizeof handle);
  out->base = base;
  out->length = length;
  out->handle = room;
  out->handle_size = sizeof handle;
  return RDM_OK;
}

}  // namespace
}  // namespace rdmalloc

extern "C" {

int rdm_cuda_export(const void* address, rdm_remote_memory* out, void* handle) {
  if (address == nullptr || out == nullptr || handle == nullptr) {
    return rdmalloc::fail(RDM_INVALID, "the address, or where the handle is to go, is null");
  }
  return rdmalloc::export_memory(address, out, handle);
}

int rdm_remote_cache_open_cuda(void* context, const rdm_remote_options* options,
                               rdm_remote_cache** out) {
  using rdmalloc::CudaIpc;
  if (out == nullptr) return rdmalloc::fail(RDM_INVALID, "there is no place for the cache");
  CudaIpc* ipc = nullptr;
  const int status = rdmalloc::open_ipc(context, &ipc);
  if (status != RDM_OK) {
    const rdmalloc::Place place = rdmalloc::place_of(options);
    return rdmalloc::fail(status, rdmalloc::last_error(), place.error, place.size);
  }
  const int opened = rdm_remote_cache_open(&CudaIpc::kOperations, ipc, options, out);
  if (opened != RDM_OK) CudaIpc::destroy(ipc);
  return opened;
}

}  // extern "C"
