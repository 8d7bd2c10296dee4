// A program that locks all its memory, as real-time and key-keeping programs do, under a finite
// limit.
//
//   lock_all now | later | too-much | by-right
//
// now: mlockall(MCL_CURRENT). later: also MCL_FUTURE. too-much: more is mapped than the limit
// allows, and nothing may change. by-right: now, without a limit: absent pages do not count as
// locked.
#include <errno.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "tests/integration/probe.h"

namespace {

constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kBlock = kMiB / 2;

probe::Verdict verdict;
char in_program[kMiB / 2];

void check_there(const char* what, const void* at, size_t size) {
  const auto first = reinterpret_cast<uintptr_t>(at) & ~(probe::kPage - 1);
  const size_t pages = (reinterpret_cast<uintptr_t>(at) + size - first) / probe::kPage;
  for (size_t i = 0; i < pages; ++i) {
    unsigned char is_there = 0;
    if (mincore(reinterpret_cast<void*>(first + i * probe::kPage), 1, &is_there) != 0 ||
        (is_there & 1) == 0) {
      verdict.broken("page %zu of %s is not there after mlockall", i, what);
      return;
    }
  }
}

void check_locked(uint64_t before, uint64_t limit) {
  const uint64_t locked = probe::locked_bytes();
  if (locked < before + sizeof in_program) {
    verdict.broken("the kernel has %lu KiB locked only", locked >> 10);
  }
  if (locked > limit)
    verdict.broken("the kernel has %lu KiB locked, above the limit", locked >> 10);
}

void check_malloc(size_t size) {
  auto* const memory = static_cast<char*>(malloc(size));
  if (memory == nullptr) {
    verdict.broken("malloc of %zu bytes failed after mlockall", size);
    return;
  }
  memset(memory, 1, size);
  free(memory);
}

}  // namespace

int main(int argc, char** argv) {
  const char* const what = argc > 1 ? argv[1] : "now";
  alarm(40);
  rlimit limit{};
  (void)getrlimit(RLIMIT_MEMLOCK, &limit);
  const bool is_by_right = strcmp(what, "by-right") == 0;
  if (!is_by_right && limit.rlim_cur == RLIM_INFINITY) probe::skip("RLIMIT_MEMLOCK is not finite");
  if (is_by_right) limit.rlim_cur = 64 * kMiB;
  const bool is_too_much = strcmp(what, "too-much") == 0;
  auto* const block = static_cast<char*>(malloc(kBlock));
  if (is_too_much) {
    (void)mmap(nullptr, limit.rlim_cur, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  }
  const uint64_t before = probe::locked_bytes();
  const int flags = MCL_CURRENT | (strcmp(what, "later") == 0 ? MCL_FUTURE : 0);
  const int status = mlockall(flags);
  if (is_too_much) {
    if (status == 0) verdict.broken("mlockall locked more than the limit");
    if (status != 0 && errno != ENOMEM) verdict.broken("mlockall: errno %d", errno);
    if (probe::locked_bytes() != before) verdict.broken("mlockall failed and locked something");
    check_malloc(kBlock);
    return verdict.status();
  }
  if (status != 0 && limit.rlim_cur < 32 * kMiB) probe::skip("needs 32 MiB of memlock");
  if (status != 0) {
    verdict.broken("mlockall: %s", strerror(errno));
    return verdict.status();
  }
  check_there("the program", in_program, sizeof in_program);
  check_there("a block", block, kBlock);
  check_locked(before, limit.rlim_cur);
  // With MCL_FUTURE, new memory counts too: glibc's malloc is held to the limit as well.
  for (size_t size = 1; size <= kBlock; size *= 2) check_malloc(size);
  check_locked(before, limit.rlim_cur);
  if (munlockall() != 0) verdict.broken("munlockall: %s", strerror(errno));
  check_malloc(kBlock);
  return verdict.status();
}
