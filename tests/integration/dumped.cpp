// Holds 50 MiB in blocks of all kinds and waits for a debugger to dump it: see core_test.py. Each
// block has its marker at its start and end.
//
//   dumped [reserve|excluded|lost]
//
// Prints "ADDRESS MARKER" for each, then "ready". The controls also reserve addresses as an
// allocator may: `reserve` without further marking, `excluded` marked so that debuggers leave them
// out. `lost` makes debuggers leave out a live block.
#include <sys/mman.h>

#include "tests/integration/probe.h"

namespace {

constexpr size_t kReserved = size_t{1} << 40;

void mark(char* at, const char* what, const char* where) {
  snprintf(at, 40, "marker of %s, %s", what, where);
  printf("%p %s\n", static_cast<void*>(at), at);
}

void hold(void* block, size_t size, const char* what) {
  if (block == nullptr) probe::refused("out of memory");
  auto* bytes = static_cast<char*>(block);
  memset(bytes, 0x5a, size);
  mark(bytes, what, "start");
  mark(bytes + size - 40, what, "end");
}

void reserve(bool excluded) {
  void* addresses =
      mmap(nullptr, kReserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (addresses == MAP_FAILED) probe::skip("no terabyte of addresses");
  if (excluded) (void)madvise(addresses, kReserved, MADV_DONTDUMP);
}

}  // namespace

int main(int argc, char** argv) {
  const char* way = argc > 1 ? argv[1] : "";
  if (strcmp(way, "reserve") == 0) reserve(false);
  if (strcmp(way, "excluded") == 0) reserve(true);
  hold(malloc(100), 100, "a small object");
  hold(malloc(64 << 10), 64 << 10, "64 KiB");
  hold(malloc(3 << 20), 3 << 20, "3 MiB");
  free(malloc(12 << 20));
  hold(malloc(12 << 20), 12 << 20, "reused memory");
  hold(calloc(1, 8 << 20), 8 << 20, "zeroed memory");
  hold(realloc(malloc(1 << 20), 24 << 20), 24 << 20, "grown memory");
  void* aligned = aligned_alloc(1 << 21, 4 << 20);
  hold(aligned, 4 << 20, "aligned memory");
  if (strcmp(way, "lost") == 0) (void)madvise(aligned, 4 << 20, MADV_DONTDUMP);
  printf("ready\n");
  fflush(stdout);
  char byte = 0;
  (void)!read(STDIN_FILENO, &byte, 1);  // until the test releases it
  return probe::kHolds;
}
