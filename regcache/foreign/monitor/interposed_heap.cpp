#include "regcache/foreign/monitor/interposed_heap.h"

#include <errno.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>
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

char zeroes[size_t{64} << 10];  // never written, so it stays the kernel's zero page

// Uses a system call instead of memset: if the program has made the pages read-only, the call fails
// instead of crashing.
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
  if (!heap.window().contains(address)) return false;
  const Region* const region = heap.regions().find(address);
  return region != nullptr && length <= region->end() - reinterpret_cast<uintptr_t>(address);
}

}  // namespace

bool follow_advice(void* address, size_t length, int advice) {
  const os::KeepErrno keep;
  if (errno != EINVAL || (advice != MADV_DONTNEED && advice != MADV_FREE)) return false;
  const size_t bytes = os::page_ceil(length);
  if (reinterpret_cast<uintptr_t>(address) % os::page_size() != 0 || bytes < length) return false;
  if (!is_of_heap(address, bytes)) return false;
  return advice == MADV_FREE || zero(static_cast<char*>(address), bytes);
}

void HeapHole::begin(const void* base, size_t length) {
  const os::KeepErrno keep;
  heap.blocks().freed().drain(true);
  hole_ = heap.holes().begin(reinterpret_cast<uintptr_t>(base), length);
  is_open_ = true;
}

// A call that failed may still have unmapped the range before the kernel detected the error.
void HeapHole::end(bool is_done) {
  const os::KeepErrno keep;
  const size_t length = hole_.to - hole_.from;
  if (!is_done && (hole_.lost == 0 || os::is_mapped(reinterpret_cast<void*>(hole_.from), length))) {
    heap.holes().undo(hole_);
    return;
  }
  heap.holes().end(hole_, call_);
  if (!is_done) reserve();
}

void HeapHole::reserve() const {
  os::reserve_hole(reinterpret_cast<void*>(hole_.from), hole_.to - hole_.from);
}

void HeapHole::note_unchanged() {
  const os::KeepErrno keep;
  if (is_open_) heap.holes().undo(hole_);
}

bool lies_in_heap(const void* base, size_t length) {
  const auto from = reinterpret_cast<uintptr_t>(base);
  return length != 0 && heap.window().contains(base) &&
         length <= heap.window().base() + heap.window().size() - from;
}

void note_rights(const void* base, size_t length, Rights rights) {
  const size_t bytes = os::page_ceil(length);
  const auto from = reinterpret_cast<uintptr_t>(base);
  if (!touches_heap(base, bytes) || from % os::page_size() != 0) [[likely]]
    return;
  const os::KeepErrno keep;
  if (rights == Rights::kAboutToGo) {
    heap.holes().shut(from, bytes);
  } else {
    heap.holes().open(from, bytes);
  }
}

size_t replaced_of_heap(size_t length, int flags, int fd) {
  if ((flags & MAP_FIXED) == 0) return 0;
  size_t unit = os::page_size();
  if ((flags & MAP_HUGETLB) != 0) {
    const unsigned shift = static_cast<unsigned>(flags) >> MAP_HUGE_SHIFT & MAP_HUGE_MASK;
    unit = shift != 0 ? size_t{1} << shift : os::default_hugetlb_page_size();
  } else if (fd >= 0 && (flags & MAP_ANONYMOUS) == 0) {
    const os::KeepErrno keep;
    struct statfs about {};
    if (fstatfs(fd, &about) == 0 && about.f_type == HUGETLBFS_MAGIC) {
      unit = static_cast<size_t>(about.f_bsize);
    }
  }
  return os::align_up(length, unit);
}

}  // namespace rdmalloc::interposed
