#include "allocator/os/copy_on_fork.h"
#include "regcache/backends/verbs.h"
#include "regcache/find_function.h"
#include "regcache/published.h"

namespace rdmalloc {
namespace {

constexpr char kLibrary[] = "libibverbs.so.1";

// Looked up once, not on every open: the shim opens domains in calls of ibv_reg_mr that a driver
// may make while holding its lock, and a constructor, which holds the dynamic linker's lock, may
// wait for that lock.
constinit Published<VerbsLibrary> published;

// The handle is never closed: memory regions outlive every call, and the program's protection
// domain keeps the library loaded anyway.
const char* find(VerbsLibrary* out) {
  void* library = dlopen(kLibrary, RTLD_NOLOAD | RTLD_NOW);
  if (library == nullptr) library = dlopen(kLibrary, RTLD_NOW);
  if (library == nullptr) {
    return "libibverbs.so.1 is not there: install it (Debian: apt-get install libibverbs1), and "
           "the device's driver with it (ibverbs-providers)";
  }
  if (!find_function(library, "ibv_reg_mr", "IBVERBS_1.1", &out->reg_mr) ||
      !find_function(library, "ibv_dereg_mr", "IBVERBS_1.1", &out->dereg_mr) ||
      !find_function(library, "ibv_query_device", "IBVERBS_1.1", &out->query_device)) {
    return "libibverbs.so.1 lacks the functions of its interface 1.1: install rdma-core's";
  }
  (void)find_function(library, "ibv_reg_mr_iova2", "IBVERBS_1.8", &out->reg_mr_iova2);
  (void)find_function(library, "ibv_is_fork_initialized", "IBVERBS_1.13",
                      &out->is_fork_initialized);
  out->kernel_copies_at_fork = os::copies_pinned_at_fork();
  return nullptr;
}

}  // namespace

const char* find_verbs_library(VerbsLibrary* out) {
  const char* missing = nullptr;
  const VerbsLibrary* const found = published.get([&](VerbsLibrary* library) {
    missing = find(library);
    return missing == nullptr;
  });
  if (found == nullptr) return missing != nullptr ? missing : "out of memory";
  *out = *found;
  return nullptr;
}

}  // namespace rdmalloc
