// A large, mostly untouched calloc must not cost its full size; when it is freed, the touched pages
// are given back, and the next calloc reads as zero again.
//
//   sparse MIB LIMIT_MIB   resident memory allowed with 1 % touched
#include "tests/integration/probe.h"

int main(int argc, char** argv) {
  probe::Verdict verdict;
  const size_t size = probe::argument(argc, argv, 1, 1024) << 20;
  const size_t limit = probe::argument(argc, argv, 2, 64) << 20;
  for (int round = 0; round < 3; ++round) {
    char* table = static_cast<char*>(calloc(size, 1));
    if (table == nullptr) {
      verdict.broken("calloc failed");
      break;
    }
    for (size_t at = 0; at < size; at += 100 * probe::kPage) {
      if (table[at] != 0) verdict.broken("round %d: not zero at %zu", round, at);
      table[at] = 1;
    }
    const uint64_t touched = probe::resident_bytes();
    if (touched > limit) verdict.broken("%lu KiB resident with 1 %% touched", touched >> 10);
    memset(table, 1, limit / 2);
    free(table);
    const uint64_t freed = probe::resident_bytes();
    if (freed + limit / 4 > touched + limit / 2) {
      verdict.broken("%lu KiB still resident after free", freed >> 10);
    }
  }
  if (probe::stats().pinned_bytes != probe::locked_bytes()) verdict.broken("the books are wrong");
  return verdict.status();
}
