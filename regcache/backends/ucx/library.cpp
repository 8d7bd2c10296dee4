#include "regcache/backends/ucx/library.h"

#include "regcache/find_function.h"

namespace rdmalloc {
namespace {

constexpr char kLibrary[] = "libucp.so.0";

bool find_all(void* library, UcxLibrary* out) {
  // libucs is found through libucp, which depends on it.
  (void)find_function(library, "ucs_status_string", &out->status_string);
  return find_function(library, "ucp_init_version", &out->init_version) &&
         find_function(library, "ucp_cleanup", &out->cleanup) &&
         find_function(library, "ucp_mem_map", &out->mem_map) &&
         find_function(library, "ucp_mem_unmap", &out->mem_unmap) &&
         find_function(library, "ucp_mem_query", &out->mem_query) &&
         find_function(library, "ucp_context_query", &out->context_query);
}

}  // namespace

// RTLD_NEXT may find nothing: an MPI library loads libucp with a plug-in, outside the global scope,
// and then only its handle leads to it. The handle is always kept, so that the functions survive
// the plug-in. A libucp linked into the program has no handle, and the program's calls of it are
// interposed by nobody.
const char* find_ucx_library(UcxCaller caller, UcxLibrary* out) {
  void* const library = dlopen(kLibrary, RTLD_NOLOAD | RTLD_LAZY);
  const bool interposes = caller == UcxCaller::kInterposes;
  if (interposes && find_all(RTLD_NEXT, out)) return nullptr;
  if (library != nullptr && find_all(library, out)) return nullptr;
  if (!interposes && library == nullptr && find_all(RTLD_DEFAULT, out)) return nullptr;
  return library == nullptr ? "no UCX is loaded: a UCP context comes from libucp.so.0, linked or "
                              "loaded with dlopen"
                            : "the libucp.so.0 that is loaded lacks functions of UCX's "
                              "interface: use UCX 1.13 or newer";
}

}  // namespace rdmalloc
