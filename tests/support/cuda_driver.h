// The CUDA driver functions that tests call beyond those the library uses: contexts, device memory,
// copies. They are looked up by name at run time, in the real driver and the fake one alike.
#pragma once

#include <dlfcn.h>

#include <type_traits>

#include "regcache/backends/cuda/library.h"

namespace rdmalloc::test {

struct CudaDriver {
  CudaStatus (*init)(unsigned) = nullptr;
  CudaStatus (*count_devices)(int*) = nullptr;
  CudaStatus (*create_context)(CudaContext*, unsigned, CudaDevice) = nullptr;
  CudaStatus (*destroy_context)(CudaContext) = nullptr;
  CudaStatus (*retain_primary)(CudaContext*, CudaDevice) = nullptr;
  CudaStatus (*set_current)(CudaContext) = nullptr;
  CudaStatus (*synchronize)() = nullptr;
  CudaStatus (*allocate)(CudaAddress*, size_t) = nullptr;
  CudaStatus (*deallocate)(CudaAddress) = nullptr;
  CudaStatus (*copy_to_device)(CudaAddress, const void*, size_t) = nullptr;
  CudaStatus (*copy_to_host)(void*, CudaAddress, size_t) = nullptr;
  CudaStatus (*host_register)(void*, size_t, unsigned) = nullptr;
  CudaStatus (*host_unregister)(void*) = nullptr;
  CudaStatus (*get_pointer_attribute)(void*, CudaPointerAttribute, CudaAddress) = nullptr;
  CudaStatus (*ipc_open)(CudaAddress*, CudaIpcHandle, unsigned) = nullptr;
  CudaStatus (*ipc_close)(CudaAddress) = nullptr;

  bool is_there() const { return init != nullptr; }
};

inline CudaDriver find_cuda_driver() {
  CudaDriver found;
  void* library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == nullptr) return found;
  const auto find = [library](const char* name, auto* out) {
    *out = reinterpret_cast<std::remove_pointer_t<decltype(out)>>(dlsym(library, name));
  };
  find("cuInit", &found.init);
  find("cuDeviceGetCount", &found.count_devices);
  find("cuCtxCreate_v2", &found.create_context);
  find("cuCtxDestroy_v2", &found.destroy_context);
  find("cuDevicePrimaryCtxRetain", &found.retain_primary);
  find("cuCtxSetCurrent", &found.set_current);
  find("cuCtxSynchronize", &found.synchronize);
  find("cuMemAlloc_v2", &found.allocate);
  find("cuMemFree_v2", &found.deallocate);
  find("cuMemcpyHtoD_v2", &found.copy_to_device);
  find("cuMemcpyDtoH_v2", &found.copy_to_host);
  find("cuMemHostRegister_v2", &found.host_register);
  find("cuMemHostUnregister", &found.host_unregister);
  find("cuPointerGetAttribute", &found.get_pointer_attribute);
  find("cuIpcOpenMemHandle_v2", &found.ipc_open);
  find("cuIpcCloseMemHandle", &found.ipc_close);
  return found;
}

inline const CudaDriver& cuda() {
  static const CudaDriver found = find_cuda_driver();
  return found;
}

}  // namespace rdmalloc::test
