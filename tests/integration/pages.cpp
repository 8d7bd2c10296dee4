// What regions consist of, compared with the kernel's view.
//
//   pages sealed    the kernel refuses to unmap, move or protect a region
//   pages thp       large regions are backed by transparent huge pages
//   pages hugetlb   large regions come from the pool of huge pages
//   pages base      none are huge but those that the kernel gives unasked, and everything works
#include <errno.h>
#include <sys/mman.h>

#include "tests/integration/probe.h"

namespace {

probe::Verdict verdict;
constexpr size_t kSize = size_t{24} << 20;

// Sum of a field of smaps over the mappings that overlap a range.
uint64_t mapped_bytes(const char* field, uintptr_t low, uintptr_t high) {
  FILE* file = fopen("/proc/self/smaps", "r");
  char line[512];
  uint64_t sum = 0;
  bool inside = false;
  while (file != nullptr && fgets(line, sizeof line, file) != nullptr) {
    uint64_t from = 0;
    uint64_t to = 0;
    if (sscanf(line, "%lx-%lx ", &from, &to) == 2) {
      inside = from < high && to > low;
    } else if (inside && strncmp(line, field, strlen(field)) == 0) {
      sum += strtoull(line + strlen(field), nullptr, 10) << 10;
    }
  }
  if (file != nullptr) fclose(file);
  return sum;
}

// Whether the kernel gives transparent huge pages [always], where they are asked for [madvise], or
// [never].
bool kernel_gives(const char* when) {
  char line[64] = "";
  FILE* file = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "r");
  if (file == nullptr) return false;
  const bool is_read = fgets(line, sizeof line, file) != nullptr;
  fclose(file);
  return is_read && strstr(line, when) != nullptr;
}

size_t huge_page() {
  size_t bytes = 0;
  FILE* file = fopen("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size", "r");
  if (file == nullptr) return 0;
  if (fscanf(file, "%zu", &bytes) != 1) bytes = 0;
  fclose(file);
  return bytes;
}

void check_refused(const char* call, bool failed) {
  if (failed && errno == EPERM) return;
  verdict.broken("%s of a region: %s", call, failed ? strerror(errno) : "allowed");
}

void check_sealed(const rdm_region& region) {
  if (probe::stats().sealed != probe::stats().regions) verdict.broken("not all are sealed");
  char* last = static_cast<char*>(region.base) + region.length - probe::kPage;
  check_refused("mprotect", mprotect(last, probe::kPage, PROT_NONE) != 0);
  check_refused("mremap",
                mremap(last, probe::kPage, 2 * probe::kPage, MREMAP_MAYMOVE) == MAP_FAILED);
  check_refused("munmap", munmap(last, probe::kPage) != 0);
  constexpr int kOver = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
  check_refused("mmap over", mmap(last, probe::kPage, PROT_READ, kOver, -1, 0) == MAP_FAILED);
  if (verdict.status() != 0) _exit(verdict.status());  // the heap has a hole now
}

}  // namespace

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "";
  if (!probe::library().loaded()) probe::skip("no library, no regions");
  if (strcmp(what, "sealed") == 0) probe::need_seals();
  if (strcmp(what, "thp") == 0 && kernel_gives("[never]")) {
    probe::skip("the kernel gives no transparent huge pages");
  }
  if (strcmp(what, "thp") == 0 && huge_page() > kSize) {
    probe::skip("a huge page has more than the 24 MiB that are tried");
  }
  if (strcmp(what, "thp") == 0 && getenv("RDMALLOC_HUGE") == nullptr && kernel_gives("[always]")) {
    probe::skip("the kernel gives transparent huge pages unasked: nothing can show the difference");
  }
  char* buffer = static_cast<char*>(malloc(kSize));
  if (buffer == nullptr) return probe::kBroken;
  memset(buffer, 1, kSize);
  rdm_region region{};
  if (!probe::region_of(buffer, 1, &region)) verdict.broken("the buffer is in no region");
  const auto low = reinterpret_cast<uintptr_t>(region.base);
  const uint64_t claimed = probe::stats().huge_bytes;
  const uint64_t transparent = mapped_bytes("AnonHugePages:", low, low + region.length);
  const uint64_t pool = mapped_bytes("Private_Hugetlb:", low, low + region.length);
  printf("region of %zu KiB: %lu KiB transparent, %lu from the pool, claimed %lu\n",
         region.length >> 10, transparent >> 10, pool >> 10, claimed >> 10);
  if (strcmp(what, "sealed") == 0) check_sealed(region);
  if (strcmp(what, "thp") == 0 && (transparent < kSize / 2 || claimed == 0)) {
    verdict.broken("not transparent huge pages");
  }
  if (strcmp(what, "hugetlb") == 0 && (pool < kSize || claimed < kSize)) {
    verdict.broken("not from the pool");
  }
  if (strcmp(what, "base") == 0) {
    if (pool != 0 || (transparent != 0 && !kernel_gives("[always]")))
      verdict.broken("huge, but should not be");
    if (claimed != transparent) verdict.broken("not counted as the kernel counts");
  }
  const uint64_t locked = probe::locked_and_hugetlb_bytes();
  if (probe::stats().pinned_bytes != locked) {
    verdict.broken("books say %lu pinned, the kernel %lu", probe::stats().pinned_bytes, locked);
  }
  free(buffer);
  return verdict.status();
}
