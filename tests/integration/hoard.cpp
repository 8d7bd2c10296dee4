// Allocates and touches until it has enough or malloc refuses; then compares the library's books
// with the kernel's, frees everything and continues. Under every limit the program must end this
// way, never by a signal.
//
//   hoard MIB BLOCK_KIB all|some|none|any   how much malloc must provide
#include <errno.h>

#include <algorithm>

#include "tests/integration/probe.h"

namespace {

constexpr size_t kMostBlocks = 1 << 20;
void* blocks[kMostBlocks];
probe::Verdict verdict;

void check_books(const char* when) {
  if (!probe::library().loaded()) return;
  const rdm_stats now = probe::stats();
  const uint64_t locked = probe::locked_and_hugetlb_bytes();
  if (now.pinned_bytes != locked) {
    verdict.broken("%s: books say %lu pinned bytes, the kernel %lu", when, now.pinned_bytes,
                   locked);
  }
  if (now.held_bytes != now.pinned_bytes + now.overflow_bytes + now.sparse_bytes) {
    verdict.broken("%s: held %lu is not the sum of its kinds", when, now.held_bytes);
  }
  if (now.pinned_bytes > now.budget_bytes) verdict.broken("%s: more pinned than the budget", when);
  if (now.held_bytes > now.memory_cap_bytes && getenv("RDMALLOC_MEMORY_CAP") != nullptr) {
    verdict.broken("%s: more held than the cap", when);
  }
}

size_t hoard(size_t wanted, size_t block) {
  size_t count = 0;
  for (; count * block < wanted && count < kMostBlocks; ++count) {
    errno = 0;
    blocks[count] = malloc(block);
    if (blocks[count] == nullptr) {
      if (errno != ENOMEM) verdict.broken("malloc failed with errno %d", errno);
      break;
    }
    memset(blocks[count], 1, block);
  }
  return count;
}

}  // namespace

int main(int argc, char** argv) {
  const size_t wanted = probe::argument(argc, argv, 1, 16) << 20;
  const size_t block = probe::argument(argc, argv, 2, 64) << 10;
  const char* promised = argc > 3 ? argv[3] : "all";

  const size_t count = hoard(wanted, block);
  const size_t got = count * block;
  check_books("full");
  const rdm_stats full = probe::stats();
  printf("%zu KiB of %zu; pinned %lu overflow %lu KiB, budget %lu by %lu\n", got >> 10,
         wanted >> 10, full.pinned_bytes >> 10, full.overflow_bytes >> 10, full.budget_bytes >> 10,
         full.budget_limited_by);
  if (strcmp(promised, "all") == 0 && got < wanted) verdict.broken("malloc failed too early");
  if (strcmp(promised, "some") == 0 && (got >= wanted || got == 0)) {
    verdict.broken("malloc must give something and then fail");
  }
  if (strcmp(promised, "none") == 0 && got != 0) verdict.broken("malloc must give nothing");

  for (size_t i = 0; i < count; ++i) free(blocks[i]);
  const size_t again = hoard(std::min(got, wanted) / 2, block);
  if (again * block + block < got / 2) verdict.broken("half of what was freed cannot be had again");
  for (size_t i = 0; i < again; ++i) free(blocks[i]);
  check_books("empty");
  return verdict.status();
}
