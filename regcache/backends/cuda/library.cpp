#include "regcache/backends/cuda/library.h"

#include <stdio.h>
#include <unistd.h>

#include "allocator/failure.h"
#include "include/rdmalloc/rdmalloc.h"
#include "regcache/find_function.h"

namespace rdmalloc {
namespace {

// Remembers the first function that is missing.
class Finder {
 public:
  explicit Finder(void* library) : library_(library) {}

  template <typename Function>
  bool find(const char* name, Function* out) {
    return find_function(library_, name, out);
  }
  template <typename Function>
  void need(const char* name, Function* out) {
    if (!find(name, out) && missing_ == nullptr) missing_ = name;
  }
  const char* missing() const { return missing_; }

 private:
  void* const library_;
  const char* missing_ = nullptr;
};

int explain_missing(Finder& finder, char* why, size_t size) {
  CudaStatus (*get_version)(int*) = nullptr;
  int version = 0;  // 1000 * major + 10 * minor
  if (finder.find("cuDriverGetVersion", &get_version)) (void)get_version(&version);
  snprintf(why, size,
           "the driver's libcuda.so.1 (for CUDA %d.%d) lacks %s: install a newer NVIDIA driver",
           version / 1000, version % 1000 / 10, finder.missing());
  return RDM_UNSUPPORTED;
}

}  // namespace

// The handle is never closed: registrations outlive every call, and at process exit the driver's
// functions must still be callable to report that it has shut down.
int find_cuda_library(CudaLibrary* out, char* why, size_t size, const char* file) {
  void* library = dlopen(file, RTLD_NOLOAD | RTLD_NOW);
  if (library == nullptr) library = dlopen(file, RTLD_NOW);
  if (library == nullptr) {
    const char* reason = dlerror();
    snprintf(
        why, size,
        "there is no CUDA driver (%s): install NVIDIA's (Debian: libcuda1), or, in a container, "
        "start it with access to the GPU",
        reason != nullptr ? reason : file);
    return RDM_UNSUPPORTED;
  }
  Finder finder(library);
  CudaLibrary found;
  finder.need("cuInit", &found.init);
  finder.need("cuCtxGetCurrent", &found.get_current);
  finder.need("cuCtxPushCurrent_v2", &found.push_current);
  finder.need("cuCtxPopCurrent_v2", &found.pop_current);
  finder.need("cuCtxGetDevice", &found.get_device);
  finder.need("cuDeviceGetAttribute", &found.get_device_attribute);
  finder.need("cuGetErrorName", &found.get_error_name);
  // The first version of this function requires whole pages; the second does not.
  finder.need("cuMemHostRegister_v2", &found.host_register);
  finder.need("cuMemHostUnregister", &found.host_unregister);
  finder.need("cuMemHostGetDevicePointer_v2", &found.get_device_pointer);
  finder.need("cuPointerGetAttribute", &found.get_pointer_attribute);
  finder.need("cuMemGetAddressRange_v2", &found.get_address_range);
  finder.need("cuIpcGetMemHandle", &found.ipc_get);
  finder.need("cuIpcCloseMemHandle", &found.ipc_close);
  if (!finder.find("cuIpcOpenMemHandle_v2", &found.ipc_open)) {
    finder.need("cuIpcOpenMemHandle", &found.ipc_open);  // before CUDA 11
  }
  if (finder.missing() != nullptr) return explain_missing(finder, why, size);
  *out = found;
  return RDM_OK;
}

int CudaHome::settle(const CudaLibrary& library, CudaContext context, char* why, size_t size) {
  CudaStatus status = library.init(0);
  if (status == kCudaSuccess && context == nullptr) status = library.get_current(&context);
  if (status == kCudaSuccess && context == nullptr) {
    return fail(RDM_INVALID,
                "no CUDA context is current in this thread: make one so first (cudaSetDevice() and "
                "cudaFree(0), or cuCtxSetCurrent()), or pass one",
                why, size);
  }
  if (status == kCudaSuccess) {
    const CudaCurrent current(library, context);
    status = current.status();
    // A cheap call that fails if an earlier error has broken the context.
    if (status == kCudaSuccess) status = library.get_device(&device_);
  }
  if (status != kCudaSuccess) {
    CudaAttempt attempt;
    attempt.status = status;
    return explain_cuda_failure(library, attempt, why, size);
  }
  library_ = library;
  context_ = context;
  process_ = getpid();
  return RDM_OK;
}

bool CudaHome::is_in_child() const { return getpid() != process_; }

bool is_cuda_gone(CudaStatus status) {
  return status == kCudaNotInitialized || status == kCudaDeinitialized ||
         status == kCudaInvalidContext || status == kCudaContextIsDestroyed;
}

bool is_cuda_broken(CudaStatus status) {
  switch (status) {
    case kCudaDeviceUnavailable:
    case kCudaEccUncorrectable:
    case kCudaNvlinkUncorrectable:
    case kCudaIllegalAddress:
    case kCudaLaunchTimeout:
    case kCudaAssert:
      return true;
    default:
      return status >= kCudaHardwareStackError && status <= kCudaLaunchFailed;
  }
}

}  // namespace rdmalloc
