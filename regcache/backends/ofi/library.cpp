#include "regcache/backends/ofi/library.h"

#include "regcache/find_function.h"
#include "regcache/published.h"

namespace rdmalloc {
namespace {

constexpr char kLibrary[] = "libfabric.so.1";

constinit Published<OfiLibrary> published;

// Looks in the library by its handle. If a plug-in loaded libfabric, RTLD_NEXT finds nothing, and
// the global scope finds only the shim. The handle is never closed: the functions survive the
// plug-in, and libfabric keeps the monitor permanently.
const char* find_all(OfiLibrary* out) {
  void* library = dlopen(kLibrary, RTLD_NOLOAD | RTLD_LAZY);
  if (library == nullptr) return "this process has not loaded libfabric.so.1: load it first";
  (void)find_function(library, "fi_fabric2", "FABRIC_1.8", &out->fabric2);
  if (find_function(library, "fi_fabric", "FABRIC_1.1", &out->fabric) &&
      find_function(library, "fi_open", "FABRIC_1.5", &out->open)) {
    return nullptr;
  }
  return "this libfabric is older than 1.13, and takes no memory monitor: use a newer one";
}

}  // namespace

const OfiLibrary* find_ofi_library(const char** missing) {
  *missing = "out of memory";
  return published.get([missing](OfiLibrary* library) {
    *missing = find_all(library);
    return *missing == nullptr;
  });
}

}  // namespace rdmalloc
