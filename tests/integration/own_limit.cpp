// A program that limits its address space itself (RLIMIT_AS) after the window was reserved. The
// window counts against the limit, but memory in it costs nothing more.
//
//   own_limit mappings   the program's own mappings find room below the limit
//   own_limit heap       the heap grows by more than the limit leaves
#include <sys/mman.h>
#include <sys/resource.h>

#include "tests/integration/probe.h"

namespace {

constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kLimit = 4096 * kMiB;
constexpr size_t kRoom = 32 * kMiB;
constexpr size_t kBlocks = 128;

probe::Verdict verdict;

void limit_addresses(size_t bytes) {
  rlimit limit{};
  getrlimit(RLIMIT_AS, &limit);
  limit.rlim_cur = bytes;
  if (setrlimit(RLIMIT_AS, &limit) != 0) probe::skip("cannot set RLIMIT_AS");
}

void check_mappings() {
  limit_addresses(kLimit);
  void* const own = mmap(nullptr, kMiB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (own == MAP_FAILED) verdict.broken("the program's own mapping finds no room");
}

void check_heap() {
  limit_addresses(probe::kib_field("/proc/self/status", "VmSize:") + kRoom);
  size_t got = 0;
  for (; got < kBlocks; ++got) {
    void* const block = malloc(kMiB);
    if (block == nullptr) break;
    memset(block, 1, kMiB);
  }
  printf("%zu MiB, where the limit leaves %zu\n", got, kRoom / kMiB);
  if (got < kBlocks) verdict.broken("the heap is limited");
}

}  // namespace

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "";
  free(malloc(100));
  if (strcmp(what, "mappings") == 0) check_mappings();
  if (strcmp(what, "heap") == 0) check_heap();
  return verdict.status();
}
