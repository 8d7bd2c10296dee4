// What a fork would do to a heap that libibverbs has registered, and hence whether to register it.
#include "allocator/failure.h"
#include "allocator/os/file.h"
#include "allocator/os/memory.h"
#include "regcache/backends/verbs/backend.h"

namespace rdmalloc {
namespace {

// Whether a mapping begins at the address.
bool is_boundary(uintptr_t address) {
  bool found = false;
  (void)os::for_each_line("/proc/self/maps", [&](os::Text line) {
    uint64_t low = 0;
    uint64_t high = 0;
    if (!os::parse_range(line, &low, &high)) return true;
    found = low == address;
    return low < address;
  });
  return found;
}

// Before rdma-core 35, only the effect shows whether ibv_fork_init() or RDMAV_FORK_SAFE is in
// force: a registered page becomes a mapping of its own, which children lack.
bool hides_what_it_registers(const VerbsLibrary& library, ibv_pd* pd) {
  auto* const pages = static_cast<char*>(os::map_metadata(3 * os::page_size()));
  if (pages == nullptr) return false;
  char* const middle = pages + os::page_size();
  *middle = 1;
  ibv_mr* const mr = library.reg_mr(pd, middle, os::page_size(), IBV_ACCESS_LOCAL_WRITE);
  const bool hides = mr != nullptr && is_boundary(reinterpret_cast<uintptr_t>(middle));
  if (mr != nullptr) (void)library.dereg_mr(mr);
  os::unmap_metadata(pages, 3 * os::page_size());
  return hides;
}

bool is_fork_safety_in_force(const VerbsLibrary& library, ibv_pd* pd) {
  if (library.is_fork_initialized != nullptr) {
    return library.is_fork_initialized() == ForkStatus::kEnabled;
  }
  return !library.kernel_copies_at_fork && hides_what_it_registers(library, pd);
}

}  // namespace

// If the kernel does not copy pinned pages at fork, and ibv_fork_init() was called, libibverbs must
// hide registered memory from children, or the parent's pages move away from their registration. A
// heap can be neither hidden nor moved. The program's own registrations, which it must keep from
// children itself, go on working.
int check_verbs_fork(const VerbsLibrary& library, ibv_pd* pd, char* why, size_t size) {
  if (!is_fork_safety_in_force(library, pd)) return RDM_OK;
  return fail(
      RDM_UNSUPPORTED,
      "ibv_fork_init() or RDMAV_FORK_SAFE is in force and this kernel does not copy pinned "
      "memory at fork (Linux 5.12 does): registered, the heap would be missing in children; "
      "use a newer kernel, or unset RDMAV_FORK_SAFE if the program does not fork",
      why, size);
}

}  // namespace rdmalloc
