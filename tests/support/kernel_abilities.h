// What this kernel can do, tested directly: an emulator (qemu-user) may accept a call without
// performing it. What is missing is said, so that a case may be skipped for it.
#pragma once

#include <stdio.h>
#include <sys/mman.h>

#include "allocator/os/page_size.h"

namespace rdmalloc::test {

inline bool has(bool ability, const char* what) {
  if (!ability) printf("SKIPPED: this kernel does not %s\n", what);
  return ability;
}

struct Page {
  explicit Page(int protection)
      : base(static_cast<char*>(
            mmap(nullptr, os::page_size(), protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {}
  ~Page() { munmap(base, os::page_size()); }
  Page(const Page&) = delete;
  Page& operator=(const Page&) = delete;
  char* const base;
};

inline bool can_populate() {
  const Page page(PROT_NONE);
  constexpr int kPopulateWrite = 23;
  return has(madvise(page.base, os::page_size(), kPopulateWrite) != 0,
             "populate (MADV_POPULATE_WRITE)");
}

}  // namespace rdmalloc::test
