#include "regcache/preload/verbs_real.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>

#include <atomic>

namespace rdmalloc::shim {
namespace {

constexpr char kLibrary[] = "libibverbs.so.1";
constexpr char kInterface[] = "IBVERBS_1.1";

// From the library by its handle: what is next after the shim may be nothing, when libibverbs came
// with a plug-in, and what the global scope has is the shim.
template <typename Function>
bool find(void* library, const char* name, const char* version, Function* out) {
  *out = reinterpret_cast<Function>(dlvsym(library, name, version));
  return *out != nullptr;
}

bool find_all(void* library, RealVerbs* out) {
  (void)find(library, "ibv_reg_mr_iova", "IBVERBS_1.7", &out->reg_mr_iova);
  (void)find(library, "ibv_reg_mr_iova2", "IBVERBS_1.8", &out->reg_mr_iova2);
  (void)find(library, "ibv_unimport_pd", "IBVERBS_1.10", &out->unimport_pd);
  (void)find(library, "ibv_is_fork_initialized", "IBVERBS_1.13", &out->is_fork_initialized);
  return find(library, "ibv_reg_mr", kInterface, &out->reg_mr) &&
         find(library, "ibv_rereg_mr", kInterface, &out->rereg_mr) &&
         find(library, "ibv_dereg_mr", kInterface, &out->dereg_mr) &&
         find(library, "ibv_dealloc_pd", kInterface, &out->dealloc_pd) &&
         find(library, "ibv_close_device", kInterface, &out->close_device);
}

constinit std::atomic<const RealVerbs*> published{nullptr};

// Of threads that find at the same time, the first publishes.
const RealVerbs* find_and_publish() {
  void* library = dlopen(kLibrary, RTLD_NOLOAD | RTLD_NOW);
  if (library == nullptr) library = dlopen(kLibrary, RTLD_NOW);
  auto* found = static_cast<RealVerbs*>(calloc(1, sizeof(RealVerbs)));
  const RealVerbs* first = nullptr;
  if (library != nullptr && found != nullptr && find_all(library, found)) {
    if (published.compare_exchange_strong(first, found)) return found;
  } else {
    errno = ENOSYS;
  }
  free(found);
  return first;
}

}  // namespace

const RealVerbs* real_verbs() {
  const RealVerbs* real = published.load(std::memory_order_acquire);
  return real != nullptr ? real : find_and_publish();
}

ibv_mr* RealVerbs::register_memory(ibv_pd* pd, void* address, size_t length, uint64_t iova,
                                   unsigned access) const {
  if (reg_mr_iova2 != nullptr) return reg_mr_iova2(pd, address, length, iova, access);
  const bool identity = iova == reinterpret_cast<uintptr_t>(address);
  if (identity) return reg_mr(pd, address, length, static_cast<int>(access));
  if (reg_mr_iova != nullptr) {
    return reg_mr_iova(pd, address, length, iova, static_cast<int>(access));
  }
  errno = EOPNOTSUPP;
  return nullptr;
}

}  // namespace rdmalloc::shim
