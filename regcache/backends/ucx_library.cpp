#include <dlfcn.h>

#include "allocator/os/file.h"
#include "regcache/backends/ucx.h"

namespace rdmalloc {
namespace {

constexpr char kLibrary[] = "libucp.so.0";

template <typename Function>
bool find(void* library, const char* name, Function* out) {
  *out = reinterpret_cast<Function>(dlsym(library, name));
  return *out != nullptr;
}

bool find_all(void* library, UcxLibrary* out) {
  // libucs is found through libucp, which needs it.
  (void)find(library, "ucs_status_string", &out->status_string);
  return find(library, "ucp_mem_map", &out->mem_map) &&
         find(library, "ucp_mem_unmap", &out->mem_unmap) &&
         find(library, "ucp_context_query", &out->context_query);
}

uint64_t pinned_memory() {
  uint64_t kib = 0;
  os::for_each_line("/proc/self/status",
                    [&kib](os::Text line) { return !os::parse_field(line, "VmPin:", &kib); });
  return kib << 10;
}

}  // namespace

// First as the program finds them, then in the library that a plug-in brought along, out of sight.
// It is never loaded here: who has a context has it loaded.
const char* find_ucx_library(UcxLibrary* out) {
  UcxLibrary found;
  found.pinned_memory = pinned_memory;
  if (!find_all(RTLD_DEFAULT, &found)) {
    // Not closed: the domain calls into it as long as it is open.
    void* library = dlopen(kLibrary, RTLD_NOLOAD | RTLD_LAZY);
    if (library == nullptr) {
      return "no UCX is loaded: a UCP context comes from libucp.so.0, linked or loaded with dlopen";
    }
    if (!find_all(library, &found)) {
      return "the libucp.so.0 that is loaded lacks functions of UCX's interface: use UCX 1.13 or "
             "newer";
    }
  }
  *out = found;
  return nullptr;
}

}  // namespace rdmalloc
