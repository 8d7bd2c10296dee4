// A block that grows when memory is used up: there is none for a second block, but enough for the
// page that it lacks.
#include "tests/integration/probe.h"

namespace {

probe::Verdict verdict;
constexpr size_t kBlock = size_t{240} << 10;
constexpr size_t kSmaller = size_t{64} << 10;

}  // namespace

int main() {
  auto* block = static_cast<char*>(malloc(kBlock));
  void* smaller = malloc(kSmaller);
  if (block == nullptr || smaller == nullptr) {
    verdict.broken("no memory");
    return verdict.status();
  }
  memset(block, 1, kBlock);
  memset(smaller, 1, kSmaller);
  probe::use_up_memory(kSmaller);
  if (malloc(kBlock) != nullptr) verdict.broken("memory was not exhausted");
  free(smaller);
  block = static_cast<char*>(realloc(block, kBlock + probe::kPage));
  if (block == nullptr) {
    verdict.broken("the block did not grow by a page");
    return verdict.status();
  }
  for (size_t byte = 0; byte < kBlock; ++byte) {
    if (block[byte] == 1) continue;
    verdict.broken("byte %zu of the block has changed", byte);
    break;
  }
  memset(block, 1, kBlock + probe::kPage);
  return verdict.status();
}
