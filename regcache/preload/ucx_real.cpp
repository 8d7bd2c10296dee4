#include "regcache/preload/ucx_real.h"

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>

#include "regcache/posix_lock.h"

namespace rdmalloc::shim {
namespace {

constexpr char kLibrary[] = "libucp.so.0";

constinit pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
constinit RealUcx real;
constinit std::atomic<bool> is_found{false};

template <typename Function>
bool find(void* library, const char* name, Function* out) {
  *out = reinterpret_cast<Function>(dlsym(library, name));
  return *out != nullptr;
}

bool find_all(void* library) {
  return find(library, "ucp_init_version", &real.init_version) &&
         find(library, "ucp_cleanup", &real.cleanup) &&
         find(library, "ucp_mem_map", &real.mem_map) &&
         find(library, "ucp_mem_query", &real.mem_query);
}

// Next after the shim there may be nothing: an MPI library brings libucp along with a plug-in, out
// of the global scope, and then its handle leads to it. The handle is kept, so that the functions
// stay when the plug-in goes.
bool find_anywhere() {
  if (find_all(RTLD_NEXT)) return true;
  void* library = dlopen(kLibrary, RTLD_NOLOAD | RTLD_LAZY);
  return library != nullptr && find_all(library);
}

}  // namespace

const RealUcx* real_ucx() {
  if (!is_found.load(std::memory_order_acquire)) {
    const PosixLock hold(&mutex);
    if (!is_found.load(std::memory_order_relaxed)) {
      if (!find_anywhere()) return nullptr;
      is_found.store(true, std::memory_order_release);
    }
  }
  return &real;
}

}  // namespace rdmalloc::shim
