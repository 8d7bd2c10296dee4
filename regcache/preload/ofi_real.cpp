#include "regcache/preload/ofi_real.h"

#include "regcache/find_function.h"
#include "regcache/published.h"

namespace rdmalloc::shim {
namespace {

constexpr char kLibrary[] = "libfabric.so.1";

constinit Published<RealOfi> published;

// From the library by its handle: what is next after the shim may be nothing, when libfabric came
// with a plug-in, and what the global scope has is the shim. The handle is kept, so that the
// functions stay when the plug-in goes.
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
