// librdmalloc-ofi.so: tells libfabric's registration cache to trust window memory, and registers
// the window's regions in each domain that pins memory, so that its cache finds every malloc'd
// buffer inside a region.
//
// Everything in libfabric starts with fi_fabric or, if a memory monitor is imported (Open MPI),
// with fi_open. Both are interposed by name and version: callers of the oldest interface reach
// libfabric directly. If our monitor cannot be installed, everything is left to libfabric.
#include <rdma/fabric.h>
#include <rdma/fi_errno.h>

#include <atomic>

#include "include/rdmalloc/ofi.h"
#include "regcache/backends/ofi/library.h"
#include "regcache/preload/ofi/domains.h"
#include "regcache/preload/warning.h"

namespace rdmalloc::shim {
namespace {

enum class Import : uint8_t { kUntried, kOurs, kRefused };
constinit std::atomic<Import> import_state{Import::kUntried};

// False while another thread is importing it.
bool has_monitor() {
  Import state = import_state.load(std::memory_order_acquire);
  if (state == Import::kUntried) {
    const int status = rdm_ofi_import_monitor();
    if (status == RDM_AGAIN) return false;
    if (status != RDM_OK) warn_once("libfabric", rdm_last_error());
    state = status == RDM_OK ? Import::kOurs : Import::kRefused;
    import_state.store(state, std::memory_order_release);
  }
  return state == Import::kOurs;
}

// Whoever calls the shim normally has libfabric loaded. Null if there is none that is new enough.
const OfiLibrary* real_ofi() {
  const char* missing = nullptr;
  return find_ofi_library(&missing);
}

}  // namespace
}  // namespace rdmalloc::shim

using rdmalloc::OfiLibrary;
using namespace rdmalloc::shim;  // NOLINT(google-build-using-namespace): C functions follow

extern "C" {

RDM_API int fi_fabric(fi_fabric_attr* attributes, fid_fabric** out, void* context) {
  const OfiLibrary* real = real_ofi();
  if (real == nullptr) return -FI_ENOSYS;
  (void)has_monitor();
  const int status = real->fabric(attributes, out, context);
  // Ask again: an import by another thread has finished by now.
  if (status == 0 && has_monitor()) watch(*out);
  return status;
}

RDM_API int fi_fabric2(fi_info* info, fid_fabric** out, uint64_t flags, void* context) {
  const OfiLibrary* real = real_ofi();
  if (real == nullptr || real->fabric2 == nullptr) return -FI_ENOSYS;
  (void)has_monitor();
  const int status = real->fabric2(info, out, flags, context);
  if (status == 0 && has_monitor()) watch(*out);
  return status;
}

// A program that imports its own monitor comes second, and is told that there is one already.
RDM_API int fi_open(uint32_t version, const char* name, void* attributes, size_t length,
                    uint64_t flags, fid** out, void* context) {
  const OfiLibrary* real = real_ofi();
  if (real == nullptr) return -FI_ENOSYS;
  (void)has_monitor();
  return real->open(version, name, attributes, length, flags, out, context);
}

}  // extern "C"
