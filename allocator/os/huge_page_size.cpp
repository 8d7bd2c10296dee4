#include "allocator/os/huge_page_size.h"

#include <string.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

#include "allocator/os/confinement.h"
#include "allocator/os/file.h"
#include "allocator/os/keep_errno.h"
#include "allocator/os/page_size.h"

namespace rdmalloc::os {
namespace {

// The kernel's answer never changes. Threads that ask at once get the same one.
template <typename Find>
size_t remember(std::atomic<size_t>* known, Find find) {
  const size_t before = known->load(std::memory_order_relaxed);
  if (before != 0) return before;
  const size_t size = find();
  if (!is_confined()) known->store(size, std::memory_order_relaxed);
  return size;
}

constexpr char kPools[] = "/sys/kernel/mm/hugepages";

bool has_pool(size_t size) {
  char path[96];
  const Decimal kib(size >> 10);
  char* end = stpcpy(path, kPools);
  end = stpcpy(end, "/hugepages-");
  end = stpcpy(end, kib.c_string());
  stpcpy(end, "kB/nr_hugepages");
  uint64_t pages = 0;
  return read_number(path, &pages);
}

size_t find_hugetlb_page_size() {
  const size_t usual = default_hugetlb_page_size();
  if (usual <= kLargestHugetlb) return usual;
  size_t largest = 0;
  for (size_t size = next_hugetlb_page_size(page_size()); size != 0 && size <= kLargestHugetlb;
       size = next_hugetlb_page_size(size)) {
    largest = size;
  }
  return largest != 0 ? largest : usual;
}

}  // namespace

size_t transparent_huge_page_size() {
#if defined(__x86_64__)
  return page_table_reach();
#else
  static constinit std::atomic<size_t> known{0};
  return remember(&known, [] {
    uint64_t size = 0;
    const bool is_told = read_number("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size", &size);
    return is_told && size > page_size() ? size : page_table_reach();
  });
#endif
}

size_t default_hugetlb_page_size() {
  uint64_t kib = 0;
  for_each_line("/proc/meminfo",
                [&](Text line) { return !parse_field(line, "Hugepagesize:", &kib); });
  return kib != 0 ? kib << 10 : page_table_reach();
}

size_t hugetlb_page_size() {
  static constinit std::atomic<size_t> known{0};
  return remember(&known, find_hugetlb_page_size);
}

size_t next_hugetlb_page_size(size_t bytes) {
  const KeepErrno keep;
  // Nobody says which there are, as in a container without /sys.
  if (is_confined() || access(kPools, F_OK) != 0) {
    return bytes < page_table_reach() ? page_table_reach() : 0;
  }
  constexpr size_t kLargest = size_t{16} << 30;
  size_t size = page_size();
  while (size <= bytes) size *= 2;
  while (size <= kLargest && !has_pool(size)) size *= 2;
  return size <= kLargest ? size : 0;
}

}  // namespace rdmalloc::os
