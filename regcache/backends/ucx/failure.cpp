#include <stdio.h>

#include "allocator/os/limits.h"
#include "regcache/backends/ucx/backend.h"

namespace rdmalloc {

// UCX's status does not tell a limit from a device fault; the kernel's accounts do.
int explain_ucx_failure(const UcxLibrary& library, const UcxAttempt& attempt, char* why,
                        size_t size) {
  const uint64_t limit = os::lock_limit().effective();
  const uint64_t pinned = library.pinned_memory();
  if (attempt.pins && limit != os::kNoLimit && pinned + attempt.length > limit) {
    snprintf(why, size,
             "mapping %zu KiB for UCX would pin %zu KiB in all (VmPin), above the limit on locked "
             "memory of %zu KiB: raise it (as root: ulimit -l unlimited; a memlock line in "
             "/etc/security/limits.conf; LimitMEMLOCK=infinity in a systemd unit), or give the "
             "program CAP_IPC_LOCK (setcap cap_ipc_lock+ep PROGRAM)",
             attempt.length >> 10, static_cast<size_t>((pinned + attempt.length) >> 10),
             static_cast<size_t>(limit >> 10));
    return RDM_OUT_OF_BUDGET;
  }
  const char* text = library.status_string != nullptr ? library.status_string(attempt.status) : "";
  snprintf(why, size,
           "ucp_mem_map refused %zu KiB: %s (status %d); UCX says more with UCX_LOG_LEVEL=info",
           attempt.length >> 10, text, static_cast<int>(attempt.status));
  return RDM_SYSTEM;
}

int refuse_for_room(const UcxLibrary& library, size_t length, char* why, size_t size) {
  snprintf(
      why, size,
      "mapping %zu KiB would leave UCX less than the %zu MiB that it pins itself: the limit on "
      "locked memory is %zu KiB, of which %zu KiB are pinned (VmPin); raise it with ulimit -l "
      "or in limits.conf, or give CAP_IPC_LOCK",
      length >> 10, kUcxOwnPins >> 20, static_cast<size_t>(os::lock_limit().effective() >> 10),
      static_cast<size_t>(library.pinned_memory() >> 10));
  return RDM_OUT_OF_BUDGET;
}

}  // namespace rdmalloc
