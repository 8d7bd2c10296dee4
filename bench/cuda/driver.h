// The functions of the CUDA driver that the benchmark calls, looked up at run time; needs no CUDA
// header.
#pragma once

#include <dlfcn.h>

#include <cstddef>

namespace rdmalloc::bench {

struct CudaDriver {
  using Address = unsigned long long;
  struct Handle {
    char bytes[64];
  };

  int (*init)(unsigned) = nullptr;
  int (*count_devices)(int*) = nullptr;
  int (*retain_primary)(void**, int) = nullptr;
  int (*set_current)(void*) = nullptr;
  int (*allocate)(Address*, size_t) = nullptr;
  int (*copy_to_device)(Address, const void*, size_t) = nullptr;
  int (*copy_to_host)(void*, Address, size_t) = nullptr;
  int (*ipc_open)(Address*, Handle, unsigned) = nullptr;
  int (*ipc_close)(Address) = nullptr;

  // Returns null, or why there is no driver.
  const char* load() {
    void* library = dlopen("libcuda.so.1", RTLD_NOW);
    if (library == nullptr) return "there is no CUDA driver: libcuda.so.1 cannot be loaded";
    const bool found = find(library, "cuInit", &init) &&
                       find(library, "cuDeviceGetCount", &count_devices) &&
                       find(library, "cuDevicePrimaryCtxRetain", &retain_primary) &&
                       find(library, "cuCtxSetCurrent", &set_current) &&
                       find(library, "cuMemAlloc_v2", &allocate) &&
                       find(library, "cuMemcpyHtoD_v2", &copy_to_device) &&
                       find(library, "cuMemcpyDtoH_v2", &copy_to_host) &&
                       find(library, "cuIpcOpenMemHandle_v2", &ipc_open) &&
                       find(library, "cuIpcCloseMemHandle", &ipc_close);
    return found ? nullptr : "the CUDA driver is too old: it lacks functions of CUDA 11";
  }

  // Makes the first device's context current. Returns null, or why that is impossible.
  const char* use_device() const {
    int devices = 0;
    if (init(0) != 0 || count_devices(&devices) != 0 || devices == 0) {
      return "the CUDA driver sees no device";
    }
    void* context = nullptr;
    if (retain_primary(&context, 0) != 0 || set_current(context) != 0) {
      return "the device has no context to give";
    }
    return nullptr;
  }

 private:
  template <typename Function>
  static bool find(void* library, const char* name, Function* out) {
    *out = reinterpret_cast<Function>(dlsym(library, name));
    return *out != nullptr;
  }
};

}  // namespace rdmalloc::bench
