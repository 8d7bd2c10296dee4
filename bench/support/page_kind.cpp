#include "bench/support/page_kind.h"

#include <stdio.h>

#include <fstream>

namespace rdmalloc::bench {

std::string huge_option(const std::string& kind) {
  return "RDMALLOC_HUGE=" + (kind == "4K" ? "off" : kind);
}

bool has_pages(const std::string& kind, size_t bytes) {
  if (kind != "hugetlb") return true;
  const size_t wanted = (bytes >> 21) + 1;
  size_t pages = 0;
  std::ifstream file("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages");
  if ((file >> pages) && pages >= wanted) return true;
  fprintf(stderr, "skipped: %zuM/hugetlb: the pool has no %zu free pages of 2 MiB\n", bytes >> 20,
          wanted);
  return false;
}

}  // namespace rdmalloc::bench
