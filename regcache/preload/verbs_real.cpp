#include "regcache/preload/verbs_real.h"

#include <errno.h>

#include "regcache/find_function.h"
#include "regcache/published.h"

namespace rdmalloc::shim {
namespace {

constexpr char kLibrary[] = "libibverbs.so.1";
constexpr char kInterface[] = "IBVERBS_1.1";

constinit Published<RealVerbs> published;

bool find_all(void* library, RealVerbs* out) {
  (void)find_function(library, "ibv_reg_mr_iova", "IBVERBS_1.7", &out->reg_mr_iova);
  (void)find_function(library, "ibv_reg_mr_iova2", "IBVERBS_1.8", &out->reg_mr_iova2);
  (void)find_function(library, "ibv_unimport_pd", "IBVERBS_1.10", &out->unimport_pd);
  (void)find_function(library, "ibv_is_fork_initialized", "IBVERBS_1.13",
                      &out->is_fork_initialized);
  (void)find_function(library, "ibv_get_async_event", kInterface, &out->get_async_event);
  return find_function(library, "ibv_reg_mr", kInterface, &out->reg_mr) &&
         find_function(library, "ibv_rereg_mr", kInterface, &out->rereg_mr) &&
         find_function(library, "ibv_dereg_mr", kInterface, &out->dereg_mr) &&
         find_function(library, "ibv_dealloc_pd", kInterface, &out->dealloc_pd) &&
         find_function(library, "ibv_close_device", kInterface, &out->close_device);
}

// Looks in the library by its handle. If a plug-in loaded libibverbs, RTLD_NEXT finds nothing, and
// the global scope finds only the shim.
bool load_and_find(RealVerbs* out) {
  void* library = dlopen(kLibrary, RTLD_NOLOAD | RTLD_NOW);
  if (library == nullptr) library = dlopen(kLibrary, RTLD_NOW);
  return library != nullptr && find_all(library, out);
}

}  // namespace

const RealVerbs* real_verbs() {
  const RealVerbs* real = published.get(load_and_find);
  if (real == nullptr) errno = ENOSYS;
  return real;
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
