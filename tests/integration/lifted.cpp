// The program sets a limit for a while: allocations that fail under it consume no addresses, so
// malloc works again afterwards, in a window far smaller than all the refused requests.
#include <errno.h>
#include <sys/resource.h>

#include "tests/integration/probe.h"

namespace {

constexpr size_t kBlock = size_t{4} << 20;
constexpr int kTries = 300;

}  // namespace

int main() {
  probe::Verdict verdict;
  alarm(40);
  free(malloc(100));
  rlimit before{};
  getrlimit(RLIMIT_DATA, &before);
  rlimit narrow = before;
  narrow.rlim_cur = 1 << 20;
  if (setrlimit(RLIMIT_DATA, &narrow) != 0) probe::skip("cannot set RLIMIT_DATA");
  int failures = 0;
  for (int i = 0; i < kTries; ++i) {
    errno = 0;
    void* block = malloc(kBlock);
    if (block == nullptr) ++failures;
    if (block == nullptr && errno != ENOMEM) verdict.broken("malloc failed with errno %d", errno);
    free(block);
  }
  if (setrlimit(RLIMIT_DATA, &before) != 0) probe::skip("cannot lift RLIMIT_DATA again");
  if (failures != kTries) verdict.broken("only %d of %d calls failed", failures, kTries);
  void* block = malloc(kBlock);
  if (block == nullptr) verdict.broken("malloc fails after the limit was lifted");
  if (block != nullptr) memset(block, 1, kBlock);
  const rdm_stats now = probe::stats();
  if (probe::library().loaded() && now.pinned_bytes != probe::locked_bytes()) {
    verdict.broken("books say %lu pinned bytes, the kernel %lu", now.pinned_bytes,
                   probe::locked_bytes());
  }
  return verdict.status();
}
