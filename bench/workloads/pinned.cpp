#include "bench/workloads/pinned.h"

#include <errno.h>
#include <string.h>

#include "allocator/os/newer_headers.h"
#include "bench/workloads/meter.h"

namespace rdmalloc::bench {

void* map_pinned(size_t bytes, const char* kind) {
  const bool hugetlb = strcmp(kind, "hugetlb") == 0;
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | (hugetlb ? MAP_HUGETLB : 0);
  void* block = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
  if (block == MAP_FAILED) fail("mmap", strerror(errno));
  if (strcmp(kind, "thp") == 0) madvise(block, bytes, MADV_HUGEPAGE);
  if (madvise(block, bytes, MADV_POPULATE_WRITE) != 0) fail("MADV_POPULATE_WRITE", strerror(errno));
  if (mlock(block, bytes) != 0) fail("mlock", strerror(errno));
  return block;
}

}  // namespace rdmalloc::bench
