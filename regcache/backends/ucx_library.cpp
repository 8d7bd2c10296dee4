#include "regcache/backends/ucx.h"
#include "regcache/find_function.h"
#include "regcache/pinned_memory.h"

namespace rdmalloc {
namespace {

constexpr char kLibrary[] = "libucp.so.0";

bool find_all(void* library, UcxLibrary* out) {
  // libucs is found through libucp, which needs it.
  (void)find_function(library, "ucs_status_string", &out->status_string);
  return find_function(library, "ucp_mem_map", &out->mem_map) &&
         find_function(library, "ucp_mem_unmap", &out->mem_unmap) &&
         find_function(library, "ucp_context_query", &out->context_query);
}

}  // namespace

// By its handle first: under their names the shim (regcache/preload/ucx_shim.cpp) may stand before
// functions of the program's, and ours are not for it to note. A libucp that is part of the program
// has no handle. It is never loaded here: who has a context has it loaded.
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
