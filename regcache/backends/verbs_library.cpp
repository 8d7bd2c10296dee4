#include "allocator/os/copy_on_fork.h"
#include "regcache/backends/verbs.h"
#include "regcache/find_function.h"

namespace rdmalloc {
namespace {

constexpr char kLibrary[] = "libibverbs.so.1";

}  // namespace

// The handle is never closed: memory regions outlive every call, and the program's own protection
// domain holds the library loaded anyway.
const char* find_verbs_library(VerbsLibrary* out) {
  void* library = dlopen(kLibrary, RTLD_NOLOAD | RTLD_NOW);
  if (library == nullptr) library = dlopen(kLibrary, RTLD_NOW);
  if (library == nullptr) {
    return "libibverbs.so.1 is not there: install it (Debian: apt-get install libibverbs1), and "
           "the device's driver with it (ibverbs-providers)";
  }
  VerbsLibrary found;
  if (!find_function(library, "ibv_reg_mr", "IBVERBS_1.1", &found.reg_mr) ||
      !find_function(library, "ibv_dereg_mr", "IBVERBS_1.1", &found.dereg_mr) ||
      !find_function(library, "ibv_query_device", "IBVERBS_1.1", &found.query_device)) {
    return "libibverbs.so.1 lacks the functions of its interface 1.1: install rdma-core's";
  }
  (void)find_function(library, "ibv_reg_mr_iova2", "IBVERBS_1.8", &found.reg_mr_iova2);
  (void)find_function(library, "ibv_is_fork_initialized", "IBVERBS_1.13",
                      &found.is_fork_initialized);
  found.kernel_copies_at_fork = os::copies_pinned_at_fork();
  *out = found;
  return nullptr;
}

}  // namespace rdmalloc
