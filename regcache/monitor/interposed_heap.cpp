#include "regcache/monitor/interposed_heap.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>

#include "allocator/os/confinement.h"
#include "allocator/os/keep_errno.h"
#include "allocator/os/memory.h"
#include "allocator/os/system_call.h"
#include "allocator/pages/heap.h"

namespace rdmalloc::interposed {
namespace {

char zeroes[size_t{64} << 10];  // never written to: all of it is the kernel's page of zeroes

// By a call, not by memset: a program may have taken its right to write, and then the call fails.
bool zero(char* address, size_t length) {
  if (os::is_confined()) return false;
  iovec from[16];
  for (size_t done = 0; done < length;) {
    size_t step = 0;
    size_t count = 0;
    for (; count < std::size(from) && done + step < length; ++count) {
      from[count] = {zeroes, std::min(sizeof zeroes, length - done - step)};
      step += from[count].iov_len;
    }
    const iovec to{address + done, step};
    const long written = os::system_call(SYS_process_vm_writev, long{getpid()}, os::word(from),
                                         static_cast<long>(count), os::word(&to), 1, 0);
    if (written != static_cast<long>(step)) return false;
    done += step;
  }
  return true;
}

bool is_of_heap(const void* address, size_t length) {
  if (!heap.contains(address)) return false;
  const Region* const region = heap.find(address);
  return region != nullptr && length <= region->end() - reinterpret_cast<uintptr_t>(address);
}

}  // namespace

bool follow_advice(void* address, size_t length, int advice) {
  const os::KeepErrno keep;
  if (errno != EINVAL || (advice != MADV_DONTNEED && advice != MADV_FREE)) return false;
  const size_t bytes = os::page_ceil(length);
  if (reinterpret_cast<uintptr_t>(address) % os::kPageSize != 0 || bytes < length) return false;
  if (!is_of_heap(address, bytes)) return false;
  return advice == MADV_FREE || zero(static_cast<char*>(address), bytes);
}

}  // namespace rdmalloc::interposed
