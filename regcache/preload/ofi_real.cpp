#include "regcache/preload/ofi_real.h"

#include "regcache/find_function.h"
#include "regcache/published.h"

namespace rdmalloc::shim {
namespace {

constexpr char kLibrary[] = "libfabric.so.1";

constinit Published<RealOfi> published;

// Looks in the library by its handle. If a plug-in loaded libfabric, RTLD_NEXT finds nothing, and
// the global scope finds only the shim. The handle is kept so that the functions survive the
// plug-in.
bool find_all(RealOfi* out) {
  void* library = dlopen(kLibrary, RTLD_NOLOAD | RTLD_LAZY);
  if (library == nullptr) return false;
  (void)find_function(library, "fi_fabric2", "FABRIC_1.8", &out->fabric2);
  return find_function(library, "fi_fabric", "FABRIC_1.1", &out->fabric) &&
         find_function(library, "fi_open", "FABRIC_1.5", &out->open);
}

}  // namespace

const RealOfi* real_ofi() { return published.get(find_all); }

}  // namespace rdmalloc::shim
