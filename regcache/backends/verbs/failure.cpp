#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "allocator/failure.h"
#include "allocator/os/file.h"
#include "allocator/os/limits.h"
#include "allocator/os/memory.h"
#include "regcache/backends/verbs/backend.h"
#include "regcache/domain/memory_hole.h"
#include "regcache/domain/pinned_memory.h"

namespace rdmalloc {
namespace {

// In whole pages, as the kernel counts.
uint64_t pages_of(const VerbsAttempt& attempt) {
  const uintptr_t begin = os::page_floor(reinterpret_cast<uintptr_t>(attempt.base));
  const uintptr_t end = reinterpret_cast<uintptr_t>(attempt.base) + attempt.length;
  return os::page_ceil(end - begin);
}

int explain_out_of_memory(const VerbsAttempt& attempt, char* why, size_t size) {
  const bool on_demand = (attempt.access & IBV_ACCESS_ON_DEMAND) != 0;
  const os::LockLimit limit = os::lock_limit();
  const uint64_t pinned = pinned_by_registrations();
  const uint64_t need = pages_of(attempt);
  if (!on_demand && limit.effective() != os::kNoLimit && pinned + need > limit.effective()) {
    snprintf(why, size,
             "registering %zu KiB would pin %zu KiB in all (VmPin), above the limit on locked "
             "memory of %zu KiB: raise it (as root: ulimit -l unlimited; a memlock line in "
             "/etc/security/limits.conf; LimitMEMLOCK=infinity in a systemd unit), or give the "
             "program CAP_IPC_LOCK (setcap cap_ipc_lock+ep PROGRAM)",
             static_cast<size_t>(need >> 10), static_cast<size_t>((pinned + need) >> 10),
             static_cast<size_t>(limit.effective() >> 10));
    return RDM_OUT_OF_BUDGET;
  }
  if (attempt.max_count != 0 && attempt.count + 1 >= attempt.max_count) {
    snprintf(why, size,
             "the device is out of memory regions: this domain has %zu of the %zu it may take; "
             "close domains, or let the heap grow in larger steps",
             attempt.count, attempt.max_count);
    return RDM_SYSTEM;
  }
  snprintf(why, size,
           "the device or the kernel is out of memory for registering %zu KiB (the limit on locked "
           "memory is not the cause; this domain has %zu memory regions, other processes share the "
           "device's): see dmesg",
           static_cast<size_t>(need >> 10), attempt.count);
  return RDM_SYSTEM;
}

void explain_fault(const VerbsAttempt& attempt, char* why, size_t size) {
  const bool writes = (attempt.access & IBV_ACCESS_LOCAL_WRITE) != 0;
  const MemoryHole hole = find_memory_hole(attempt.base, attempt.length, writes);
  if (hole.what == nullptr) {
    snprintf(why, size,
             "the kernel could not reach part of the memory at %p, %zu bytes, although all of it "
             "is mapped: a file beyond its end, or memory of a device",
             attempt.base, attempt.length);
    return;
  }
  snprintf(why, size,
           "the memory at %p, %zu bytes, %s from offset %zu on: unmapped or re-protected",
           attempt.base, attempt.length, hole.what, hole.offset);
}

}  // namespace

int explain_verbs_device_gone(char* why, size_t size) {
  return fail(RDM_BACKEND_NEVER,
              "the device is gone or was reset: close the domain, and open the device anew", why,
              size);
}

int explain_verbs_failure(const VerbsAttempt& attempt, char* why, size_t size) {
  switch (attempt.error) {
    case ENOMEM:
      return explain_out_of_memory(attempt, why, size);
    case EFAULT:
      explain_fault(attempt, why, size);
      return RDM_SYSTEM;
    case EOPNOTSUPP:
    case ENOSYS:
      snprintf(why, size, "the device's driver does not support access 0x%x", attempt.access);
      return RDM_UNSUPPORTED;
    case EINVAL:
      snprintf(why, size,
               "the driver refused access 0x%x or a length of %zu bytes as invalid: ask for fewer "
               "IBV_ACCESS_ flags",
               attempt.access, attempt.length);
      return RDM_BACKEND_NEVER;
    case EPERM:
    case EACCES:
      snprintf(why, size,
               "the kernel forbids this process to register memory: the protection domain belongs "
               "to a parent of this child of fork, or a security policy says no");
      return RDM_BACKEND_NEVER;
    case EIO:
    case ENODEV:
      return explain_verbs_device_gone(why, size);
    default: {
      char text[96];
      snprintf(why, size, "the driver could not register %zu bytes: %s", attempt.length,
               strerror_r(attempt.error, text, sizeof text));
      return RDM_SYSTEM;
    }
  }
}

}  // namespace rdmalloc
