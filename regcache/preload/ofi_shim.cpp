// librdmalloc-ofi.so: libfabric's registration cache is told to trust window memory, and each
// domain that pins memory has the window's regions registered, so that its cache finds every
// malloc'd buffer inside of a region.
//
// Everything of libfabric begins with fi_fabric, or, where a memory monitor is imported (Open MPI),
// with fi_open. Interposed by name and version: callers of the oldest interface go to libfabric,
// and are left alone. Where our monitor cannot be had, everything is left to libfabric.
#include <rdma/fabric.h>
#include <rdma/fi_errno.h>

#include <atomic>

#include "include/rdmalloc/ofi.h"
#include "regcache/preload/ofi_domains.h"
#include "regcache/preload/ofi_real.h"
#include "regcache/preload/warning.h"

namespace rdmalloc::shim {
namespace {

enum class Import : uint8_t { kUntried, kOurs, kRefused };
constinit std::atomic<Import> import_state{Import::kUntried};

// Where another thread is importing it: not yet.
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

}  // namespace
}  // namespace rdmalloc::shim

using namespace rdmalloc::shim;  // NOLINT(google-build-using-namespace): C functions follow

extern "C" {

RDM_API int fi_fabric(fi_fabric_attr* attributes, fid_fabric** out, void* context) {
  const RealOfi* real = real_ofi();
  if (real == nullptr) return -FI_ENOSYS;
  (void)has_monitor();
  const int status = real->fabric(attributes, out, context);
  // Asked again: what another thread was importing is imported by now.
  if (status == 0 && has_monitor()) watch(*out);
  return status;
}

RDM_API int fi_fabric2(fi_info* info, fid_fabric** out, uint64_t flags, void* context) {
  const RealOfi* real = real_ofi();
  if (real == nullptr || real->fabric2 == nullptr) return -FI_ENOSYS;
  (void)has_monitor();
  const int status = real->fabric2(info, out, flags, context);
  if (status == 0 && has_monitor()) watch(*out);
  return status;
}

// Who imports a monitor of his own comes second, and is told that there is one.
RDM_API int fi_open(uint32_t version, const char* name, void* attributes, size_t length,
                    uint64_t flags, fid** out, void* context) {
  const RealOfi* real = real_ofi();
  if (real == nullptr) return -FI_ENOSYS;
  (void)has_monitor();
  return real->open(version, name, attributes, length, flags, out, context);
}

}  // extern "C"
