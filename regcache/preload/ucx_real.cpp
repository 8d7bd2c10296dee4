#include "regcache/preload/ucx_real.h"

#include "regcache/find_function.h"
#include "regcache/published.h"

namespace rdmalloc::shim {
namespace {

constexpr char kLibrary[] = "libucp.so.0";

constinit Published<RealUcx> published;

bool find_all(void* library, RealUcx* out) {
  return find_function(library, "ucp_init_version", &out->init_version) &&
         find_function(library, "ucp_cleanup", &out->cleanup) &&
         find_function(library, "ucp_mem_map", &out->mem_map) &&
         find_function(library, "ucp_mem_query", &out->mem_query);
}

// RTLD_NEXT may find nothing: an MPI library loads libucp with a plug-in, outside the global scope,
// and then only its handle leads to it. The handle is always kept, so that the functions survive
// the plug-in.
bool find_anywhere(RealUcx* out) {
  void* library = dlopen(kLibrary, RTLD_NOLOAD | RTLD_LAZY);
  return find_all(RTLD_NEXT, out) || (library != nullptr && find_all(library, out));
}

}  // namespace

const RealUcx* real_ucx() { return published.get(find_anywhere); }

}  // namespace rdmalloc::shim
