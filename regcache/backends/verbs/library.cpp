#include "regcache/backends/verbs/library.h"

#include <errno.h>

#include "allocator/os/copy_on_fork.h"
#include "regcache/find_function.h"
#include "regcache/published.h"

namespace rdmalloc {
namespace {

constexpr char kLibrary[] = "libibverbs.so.1";
constexpr char kInterface[] = "IBVERBS_1.1";

// Looked up once, not on every open: the shim opens domains in calls of ibv_reg_mr that a driver
// may make while holding its lock, and a constructor, which holds the dynamic linker's lock, may
// wait for that lock.
constinit Published<VerbsLibrary> published;

bool find_all(void* library, VerbsLibrary* out) {
  (void)find_function(library, "ibv_reg_mr_iova", "IBVERBS_1.7", &out->reg_mr_iova);
  (void)find_function(library, "ibv_reg_mr_iova2", "IBVERBS_1.8", &out->reg_mr_iova2);
  (void)find_function(library, "ibv_unimport_pd", "IBVERBS_1.10", &out->unimport_pd);
  (void)find_function(library, "ibv_is_fork_initialized", "IBVERBS_1.13",
                      &out->is_fork_initialized);
  (void)find_function(library, "ibv_get_async_event", kInterface, &out->get_async_event);
  return find_function(library, "ibv_reg_mr", kInterface, &out->reg_mr) &&
         find_function(library, "ibv_rereg_mr", kInterface, &out->rereg_mr) &&
         find_function(library, "ibv_dereg_mr", kInterface, &out->dereg_mr) &&
         find_function(library, "ibv_query_device", kInterface, &out->query_device) &&
         find_function(library, "ibv_dealloc_pd", kInterface, &out->dealloc_pd) &&
         find_function(library, "ibv_close_device", kInterface, &out->close_device);
}

// Looks in the library by its handle. If a plug-in loaded libibverbs, RTLD_NEXT finds nothing, and
// the global scope finds only the shim. The handle is never closed: memory regions outlive every
// call, and the program's protection domain keeps the library loaded anyway.
const char* load_and_find(VerbsLibrary* out) {
  void* library = dlopen(kLibrary, RTLD_NOLOAD | RTLD_NOW);
  if (library == nullptr) library = dlopen(kLibrary, RTLD_NOW);
  if (library == nullptr) {
    return "libibverbs.so.1 is not there: install it (Debian: apt-get install libibverbs1), and "
           "the device's driver with it (ibverbs-providers)";
  }
  if (!find_all(library, out)) {
    return "libibverbs.so.1 lacks the functions of its interface 1.1: install rdma-core's";
  }
  out->kernel_copies_at_fork = os::copies_pinned_at_fork();
  return nullptr;
}

}  // namespace

const VerbsLibrary* find_verbs_library(const char** missing) {
  *missing = "out of memory";
  return published.get([missing](VerbsLibrary* library) {
    *missing = load_and_find(library);
    return *missing == nullptr;
  });
}

ibv_mr* VerbsLibrary::register_memory(ibv_pd* pd, void* address, size_t length, uint64_t iova,
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

}  // namespace rdmalloc
