#include "regcache/backends/ucx.h"
#include "regcache/domain/pinned_memory.h"
#include "regcache/find_function.h"

namespace rdmalloc {
namespace {

constexpr char kLibrary[] = "libucp.so.0";

bool find_all(void* library, UcxLibrary* out) {
  // libucs is found through libucp, which depends on it.
  (void)find_function(library, "ucs_status_string", &out->status_string);
  return find_function(library, "ucp_mem_map", &out->mem_map) &&
         find_function(library, "ucp_mem_unmap", &out->mem_unmap) &&
         find_function(library, "ucp_context_query", &out->context_query);
}

}  // namespace

// Looks in the library's handle first: the shim (regcache/preload/ucx_shim.cpp) may interpose the
// functions by name, and it must not record our own calls. A libucp linked into the program has no
// handle. Never loads it: a process that has a context has already loaded it.
const char* find_ucx_library(UcxLibrary* out) {
  UcxLibrary found;
  found.pinned_memory = pinned_by_registrations;
  // Not closed: the domain calls into it as long as it is open.
  void* library = dlopen(kLibrary, RTLD_NOLOAD | RTLD_LAZY);
  if (!find_all(library != nullptr ? library : RTLD_DEFAULT, &found)) {
    return library == nullptr ? "no UCX is loaded: a UCP context comes from libucp.so.0, linked or "
                                "loaded with dlopen"
                              : "the libucp.so.0 that is loaded lacks functions of UCX's "
                                "interface: use UCX 1.13 or newer";
  }
  *out = found;
  return nullptr;
}

}  // namespace rdmalloc
