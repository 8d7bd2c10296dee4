#include "regcache/foreign/monitor/interposed_ranges.h"

#include <string.h>
#include <sys/ipc.h>
#include <sys/shm.h>

#include "allocator/os/file.h"
#include "allocator/os/keep_errno.h"
#include "allocator/os/newer_headers.h"
#include "allocator/os/system_call.h"

namespace rdmalloc::interposed {
namespace {

// In a hugetlb mapping a call affects whole huge pages, and the address must be aligned to them. So
// this is the most that it can affect.
size_t in_largest_pages(const void* address, size_t length) {
  constexpr size_t kLargestPage = size_t{1} << 30;
  const uintptr_t aligned = address_of(address) & (~address_of(address) + 1);
  const size_t unit = aligned == 0 || aligned > kLargestPage ? kLargestPage : aligned;
  const size_t whole = os::align_up(length, unit < os::page_size() ? os::page_size() : unit);
  return whole < length ? SIZE_MAX : whole;
}

}  // namespace

size_t attached_length(const void* address) {
  const os::KeepErrno keep;
  uint64_t end = 0;
  char segment[128];
  size_t size = 0;
  os::for_each_line("/proc/self/maps", [&](os::Text line) {
    uint64_t low = 0;
    uint64_t high = 0;
    if (!os::parse_range(line, &low, &high) || low < address_of(address)) return true;
    // The line is "low-high rights offset device inode name"; the fields from the offset on tell
    // segments apart.
    for (int skipped = 0; skipped < 3 && line.size > 0; line = line.drop(1)) {
      if (*line.data == ' ') ++skipped;
    }
    if (end == 0) {
      size = line.size < sizeof segment ? line.size : sizeof segment;
      memcpy(segment, line.data, size);
    }
    if (line.size >= size && memcmp(line.data, segment, size) == 0) end = high;
    return true;
  });
  return end == 0 ? SIZE_MAX : end - address_of(address);
}

size_t replaced_by_mmap(const void* address, size_t length, int flags, int fd) {
  if ((flags & MAP_FIXED) == 0 || length == 0) return 0;
  if ((flags & MAP_HUGETLB) == 0 && fd < 0) return in_pages(length);
  return in_largest_pages(address, length);
}

bool is_dropping(int advice) {
  switch (advice) {
    case MADV_NORMAL:
    case MADV_RANDOM:
    case MADV_SEQUENTIAL:
    case MADV_WILLNEED:
    case MADV_DONTFORK:
    case MADV_DOFORK:
    case MADV_MERGEABLE:
    case MADV_UNMERGEABLE:
    case MADV_HUGEPAGE:
    case MADV_NOHUGEPAGE:
    case MADV_DONTDUMP:
    case MADV_DODUMP:
    case MADV_WIPEONFORK:
    case MADV_KEEPONFORK:
    case MADV_COLD:
    case MADV_PAGEOUT:
    case 22:  // MADV_POPULATE_READ
    case 23:  // MADV_POPULATE_WRITE
    case 25:  // MADV_COLLAPSE
      return false;
    default:
      return true;
  }
}

size_t segment_size(int id) {
  const os::KeepErrno keep;
  shmid_ds about{};
  return shmctl(id, IPC_STAT, &about) == 0 ? in_pages(about.shm_segsz) : SIZE_MAX;
}

Affected of_mremap(const void* old, size_t length, size_t new_length, int flags,
                   const void* target) {
  Affected out;
  out.base = old;
  out.length = length != 0 ? in_largest_pages(old, length) : 0;
  if ((flags & (MREMAP_MAYMOVE | MREMAP_FIXED)) == 0) {
    const size_t kept = in_pages(new_length);
    out.length = kept < out.length ? out.length - kept : 0;
    out.base = pointer_to(address_of(old) + kept);
  }
  if ((flags & MREMAP_FIXED) != 0) {
    out.target = target;
    out.target_length = in_pages(new_length);
  }
  return out;
}

Affected of_brk(uintptr_t end) {
  if (end == 0 || !is_heard()) return {};
  const auto now = static_cast<uintptr_t>(os::system_call(SYS_brk));
  return {pointer_to(end), end < now ? now - end : 0};
}

Affected of_shmat(int id, const void* address, int flags) {
  if ((flags & SHM_REMAP) == 0 || address == nullptr || !is_heard()) return {};
  return {pointer_to(os::page_floor(address_of(address))), segment_size(id)};
}

Affected of_shmdt(const void* address) {
  return {address, is_heard() ? attached_length(address) : 0};
}

}  // namespace rdmalloc::interposed
