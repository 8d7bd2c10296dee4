#include <rdma/fi_errno.h>
#include <stdio.h>
#include <string.h>

#include "allocator/os/limits.h"
#include "regcache/backends/ofi/backend.h"
#include "regcache/domain/memory_hole.h"

namespace rdmalloc {
namespace {

int explain_out_of_memory(const OfiAttempt& attempt, char* why, size_t size) {
  const uint64_t limit = os::lock_limit().effective();
  const uint64_t all = attempt.pinned + attempt.length;
  if (limit == os::kNoLimit || all <= limit) {
    snprintf(why, size,
             "the provider or the kernel is out of memory for registering %zu KiB (the limit on "
             "locked memory is not the cause): see dmesg",
             attempt.length >> 10);
    return RDM_SYSTEM;
  }
  snprintf(
      why, size,
      "registering %zu KiB with libfabric would pin %zu KiB in all (VmPin), above the limit on "
      "locked memory of %zu KiB: raise it (as root: ulimit -l unlimited; a memlock line in "
      "/etc/security/limits.conf; LimitMEMLOCK=infinity in a systemd unit), or give the "
      "program CAP_IPC_LOCK (setcap cap_ipc_lock+ep PROGRAM)",
      attempt.length >> 10, static_cast<size_t>(all >> 10), static_cast<size_t>(limit >> 10));
  return RDM_OUT_OF_BUDGET;
}

void explain_fault(const OfiAttempt& attempt, char* why, size_t size) {
  const bool writes = (attempt.access & (FI_RECV | FI_READ | FI_REMOTE_WRITE)) != 0;
  const MemoryHole hole = find_memory_hole(attempt.base, attempt.length, writes);
  snprintf(why, size, "the memory at %p, %zu bytes, %s from offset %zu on", attempt.base,
           attempt.length, hole.what != nullptr ? hole.what : "cannot be reached by the kernel",
           hole.offset);
}

}  // namespace

int explain_ofi_failure(const OfiAttempt& attempt, char* why, size_t size) {
  switch (attempt.error) {
    case FI_ENOMEM:
      return explain_out_of_memory(attempt, why, size);
    case FI_EFAULT:
      explain_fault(attempt, why, size);
      return RDM_SYSTEM;
    case FI_ENOKEY:
      snprintf(why, size,
               "the keys that are set aside for rdmalloc (RDM_OFI_FIRST_KEY) are in use in this "
               "libfabric domain: choose others for the program's own");
      return RDM_SYSTEM;
    case FI_EKEYREJECTED:
      snprintf(why, size,
               "the libfabric domain rejects the keys that are set aside for rdmalloc: open it "
               "with FI_MR_PROV_KEY, or with longer keys (mr_key_size)");
      return RDM_UNSUPPORTED;
    case FI_ENOSYS:
    case FI_EOPNOTSUPP:
      snprintf(why, size, "this libfabric provider does not register memory");
      return RDM_UNSUPPORTED;
    default: {
      char text[96];
      const char* said = attempt.error < FI_ERRNO_OFFSET
                             ? strerror_r(attempt.error, text, sizeof text)
                             : "an error of libfabric's own";
      snprintf(why, size,
               "fi_mr_reg refused %zu bytes with access 0x%llx: %s (%d); libfabric says more with "
               "FI_LOG_LEVEL=warn",
               attempt.length, static_cast<unsigned long long>(attempt.access), said,
               attempt.error);
      return RDM_SYSTEM;
    }
  }
}

}  // namespace rdmalloc
