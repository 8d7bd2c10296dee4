#include "regcache/preload/ofi_real.h"

#include <dlfcn.h>
#include <stdlib.h>

#include <atomic>

namespace rdmalloc::shim {
namespace {

constexpr char kLibrary[] = "libfabric.so.1";

// From the library by its handle: what is next after the shim may be nothing, when libfabric came
// with a plug-in, and what the global scope has is the shim.
template <typename Function>
bool find(void* library, const char* name, const char* version, Function* out) {
  *out = reinterpret_cast<Function>(dlvsym(library, name, version));
  return *out != nullptr;
}

bool find_all(void* library, RealOfi* out) {
  (void)find(library, "fi_fabric2", "FABRIC_1.8", &out->fabric2);
  return find(library, "fi_fabric", "FABRIC_1.1", &out->fabric) &&
         find(library, "fi_open", "FABRIC_1.5", &out->open);
}

constinit std::atomic<const RealOfi*> published{nullptr};

// Of threads that find at the same time, the first publishes. The handle is kept, so that the
// functions stay when the plug-in goes.
const RealOfi* find_and_publish() {
  void* library = dlopen(kLibrary, RTLD_NOLOAD | RTLD_LAZY);
  if (library == nullptr) return nullptr;
  auto* found = static_cast<RealOfi*>(calloc(1, sizeof(RealOfi)));
  const RealOfi* first = nullptr;
  if (found != nullptr && find_all(library, found) &&
      published.compare_exchange_strong(first, found)) {
    return found;
  }
  free(found);
  return first;
}

}  // namespace

const RealOfi* real_ofi() {
  const RealOfi* real = published.load(std::memory_order_acquire);
  return real != nullptr ? real : find_and_publish();
}

}  // namespace rdmalloc::shim
