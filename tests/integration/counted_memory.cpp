// What the kernel counts as memory that the program could write, though little of it is ever
// touched: where it allows no more than there is (vm.overcommit_memory=2), every process pays that.
//
//   counted_memory MIB   after a few mallocs and a mapping of so many MiB it is at most 64 MiB
#include <sys/mman.h>

#include "tests/integration/probe.h"

namespace {

constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kAllowed = 64 * kMiB;

probe::Verdict verdict;

}  // namespace

int main(int argc, char** argv) {
  const size_t own = probe::argument(argc, argv, 1, 0) * kMiB;
  if (own != 0 && mmap(nullptr, own, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) == MAP_FAILED) {
    probe::skip("no room for a mapping");
  }
  for (const size_t size : {size_t{100}, size_t{100'000}, size_t{3'000'000}}) free(malloc(size));
  const uint64_t counted = probe::kib_field("/proc/self/status", "VmData:");
  printf("%lu MiB\n", counted / kMiB);
  if (counted > kAllowed) verdict.broken("%lu MiB are counted", counted / kMiB);
  return verdict.status();
}
