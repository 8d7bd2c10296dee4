// The CUDA driver, libcuda.so.1, found at run time: a program without a GPU must not pay for it,
// and building needs no CUDA headers. The declarations here are those of the driver's documented
// interface, under our names.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rdmalloc {

using CudaContext = void*;               // CUcontext
using CudaDevice = int;                  // CUdevice
using CudaAddress = unsigned long long;  // CUdeviceptr

struct CudaIpcHandle {  // CUipcMemHandle
  char bytes[64];
};

enum CudaStatus : int {  // CUresult: the values that we distinguish
  kCudaSuccess = 0,
  kCudaInvalidValue = 1,
  kCudaOutOfMemory = 2,
  kCudaNotInitialized = 3,
  kCudaDeinitialized = 4,
  kCudaDeviceUnavailable = 46,
  kCudaNoDevice = 100,
  kCudaInvalidContext = 201,
  kCudaMapFailed = 205,
  kCudaAlreadyMapped = 208,
  kCudaEccUncorrectable = 214,
  kCudaPeerAccessUnsupported = 217,
  kCudaNvlinkUncorrectable = 220,
  kCudaInvalidHandle = 400,
  kCudaNotFound = 500,
  kCudaIllegalAddress = 700,
  kCudaLaunchTimeout = 702,
  kCudaContextIsDestroyed = 709,
  kCudaAssert = 710,
  kCudaTooManyPeers = 711,
  kCudaHostMemoryAlreadyRegistered = 712,
  kCudaHostMemoryNotRegistered = 713,
  kCudaHardwareStackError = 714,  // from here to kCudaLaunchFailed: a kernel failed
  kCudaLaunchFailed = 719,
  kCudaNotPermitted = 800,
  kCudaNotSupported = 801,
};

enum CudaRegisterFlag : unsigned {  // CU_MEMHOSTREGISTER_*
  kCudaRegisterPortable = 1,
  kCudaRegisterDeviceMap = 2,
  kCudaRegisterReadOnly = 8,
};

enum CudaDeviceAttribute : int {  // CU_DEVICE_ATTRIBUTE_*
  kCudaHostRegisterSupported = 99,
  kCudaReadOnlyHostRegisterSupported = 113,
};

enum CudaPointerAttribute : int {  // CU_POINTER_ATTRIBUTE_*
  kCudaPointerContext = 1,
  kCudaPointerMemoryType = 2,
};

inline constexpr unsigned kCudaMemoryTypeDevice = 2;      // CU_MEMORYTYPE_DEVICE
inline constexpr unsigned kCudaLazyEnablePeerAccess = 1;  // CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS

// The functions that are called; tests substitute others.
struct CudaLibrary {
  CudaStatus (*init)(unsigned) = nullptr;
  CudaStatus (*get_current)(CudaContext*) = nullptr;
  CudaStatus (*push_current)(CudaContext) = nullptr;
  CudaStatus (*pop_current)(CudaContext*) = nullptr;
  CudaStatus (*get_device)(CudaDevice*) = nullptr;
  CudaStatus (*get_device_attribute)(int*, CudaDeviceAttribute, CudaDevice) = nullptr;
  CudaStatus (*get_error_name)(CudaStatus, const char**) = nullptr;
  CudaStatus (*host_register)(void*, size_t, unsigned) = nullptr;
  CudaStatus (*host_unregister)(void*) = nullptr;
  CudaStatus (*get_device_pointer)(CudaAddress*, void*, unsigned) = nullptr;
  CudaStatus (*get_pointer_attribute)(void*, CudaPointerAttribute, CudaAddress) = nullptr;
  CudaStatus (*get_address_range)(CudaAddress*, size_t*, CudaAddress) = nullptr;
  CudaStatus (*ipc_get)(CudaIpcHandle*, CudaAddress) = nullptr;
  CudaStatus (*ipc_open)(CudaAddress*, CudaIpcHandle, unsigned) = nullptr;
  CudaStatus (*ipc_close)(CudaAddress) = nullptr;
};

// Finds the driver: the one that the program has loaded, otherwise the system's. Returns RDM_OK and
// sets *out, or returns RDM_UNSUPPORTED with a sentence. `file`: another library, for tests.
// Thread-safe; not inside malloc.
int find_cuda_library(CudaLibrary* out, char* why, size_t why_size,
                      const char* file = "libcuda.so.1");

// Makes a context current in this thread for a few calls, then restores the previous one.
class CudaCurrent {
 public:
  CudaCurrent(const CudaLibrary& library, CudaContext context)
      : library_(library), status_(library.push_current(context)) {}
  ~CudaCurrent() {
    CudaContext ours = nullptr;
    if (status_ == kCudaSuccess) (void)library_.pop_current(&ours);
  }
  CudaCurrent(const CudaCurrent&) = delete;
  CudaCurrent& operator=(const CudaCurrent&) = delete;

  // kCudaSuccess: it is current.
  CudaStatus status() const { return status_; }

 private:
  const CudaLibrary& library_;
  const CudaStatus status_;
};

// One of the program's contexts, and the process in which it works: in a child of fork the driver
// cannot be used, not even to deregister. Any thread.
class CudaHome {
 public:
  // Starts the driver unless the program has started it. Takes the given context, or for null the
  // one that is current in this thread. Returns RDM_OK, or an error status with a sentence.
  int settle(const CudaLibrary& library, CudaContext context, char* why, size_t why_size);

  const CudaLibrary& library() const { return library_; }
  CudaContext context() const { return context_; }
  CudaDevice device() const { return device_; }
  bool is_in_child() const;

 private:
  CudaLibrary library_;
  CudaContext context_ = nullptr;
  CudaDevice device_ = 0;
  int process_ = 0;
};

// The context or the whole driver is gone, and with it everything registered or opened there.
bool is_cuda_gone(CudaStatus status);

// The context exists but is unusable: an error of a kernel or of the device stays until the context
// is destroyed.
bool is_cuda_broken(CudaStatus status);

// What was tried, for explain_cuda_failure.
struct CudaAttempt {
  enum class Step : uint8_t { kStart, kRegister, kExport, kOpen };
  Step step = Step::kStart;
  CudaStatus status = kCudaSuccess;
  const void* base = nullptr;
  size_t length = 0;
  bool writes = false;     // kRegister: the device may write it
  bool foreign = false;    // kRegister: not a region
  size_t count = 0;        // existing registrations, ...
  size_t count_bytes = 0;  // ... and their bytes
};

// Explains why it failed, by cause, and what to do. Returns the status for the caller: one of
// rdmalloc.h, or RDM_BACKEND_OVERLAPS. Not inside malloc.
int explain_cuda_failure(const CudaLibrary& library, const CudaAttempt& attempt, char* why,
                         size_t why_size);

}  // namespace rdmalloc
