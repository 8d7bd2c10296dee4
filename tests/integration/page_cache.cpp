// Fills a control group with pages of a file that was read twice, so they count as recently used,
// and then allocates memory: the kernel reclaims such pages for it.
//
//   page_cache FILE_MIB WANTED_MIB
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/integration/probe.h"

namespace {

constexpr size_t kStep = size_t{1} << 20;
constexpr size_t kBlock = 25 * kStep;

char buffer[kStep];

// Written, with none of its pages in memory.
int make_file(size_t bytes) {
  char name[] = "page_cache.XXXXXX";
  const int file = mkstemp(name);
  if (file < 0) return -1;
  unlink(name);
  for (size_t done = 0; done < bytes; done += kStep) {
    if (write(file, buffer, kStep) != static_cast<ssize_t>(kStep)) return -1;
  }
  fsync(file);
  posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
  return file;
}

// False in a file system that is memory, of whatever kind: its pages have no other place.
bool can_leave_memory(int file) {
  void* const mapped = mmap(nullptr, kStep, PROT_READ, MAP_SHARED, file, 0);
  if (mapped == MAP_FAILED) return false;
  unsigned char present[kStep / 4096] = {};  // no machine has smaller pages
  const bool is_known = mincore(mapped, kStep, present) == 0;
  munmap(mapped, kStep);
  size_t count = 0;
  for (const unsigned char page : present) count += page & 1;
  return is_known && count < kStep / probe::kPage;
}

}  // namespace

int main(int argc, char** argv) {
  const size_t cached = probe::argument(argc, argv, 1, 180) << 20;
  const size_t wanted = probe::argument(argc, argv, 2, 150) << 20;
  const int file = make_file(cached);
  if (file < 0) probe::skip("no room for a file in this folder");
  if (!can_leave_memory(file)) probe::skip("this folder is memory, and not on a disk");
  for (int round = 0; round < 2; ++round) {
    lseek(file, 0, SEEK_SET);
    while (read(file, buffer, sizeof buffer) > 0) {
    }
  }
  size_t got = 0;
  for (; got < wanted; got += kBlock) {
    void* const block = malloc(kBlock);
    if (block == nullptr) break;
    memset(block, 1, kBlock);
  }
  printf("%zu MiB of %zu beside %zu MiB of a file\n", got >> 20, wanted >> 20, cached >> 20);
  return got < wanted ? 1 : 0;
}
