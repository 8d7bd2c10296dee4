// Pinned memory when the program locks memory itself, unlocks ours, forks, or requests an alignment
// larger than all it has. The books must match what the kernel reports as locked.
//
//   locks alignment | own-lock | munlockall | child
#include <sys/mman.h>

#include <initializer_list>

#include "tests/integration/probe.h"

namespace {

constexpr size_t kMiB = size_t{1} << 20;

probe::Verdict verdict;

// `others`: locked bytes of the program outside malloc's memory.
void check_books(const char* when, uint64_t others = 0) {
  const uint64_t pinned = probe::stats().pinned_bytes;
  const uint64_t locked = probe::locked_bytes();
  if (pinned + others != locked) {
    verdict.broken("%s: books say %lu KiB pinned, the kernel %lu", when, pinned >> 10,
                   (locked - others) >> 10);
  }
}

// Bytes of a region that still have pages.
uint64_t kept_bytes(const rdm_region& region) {
  uint64_t kept = 0;
  for (size_t at = 0; at < region.length; at += probe::kPage) {
    if (probe::library().owns(static_cast<char*>(region.base) + at) == 1) kept += probe::kPage;
  }
  return kept;
}

// The regions' figures add up to the books.
void check_regions(const char* when) {
  const uint64_t pinned = probe::stats().pinned_bytes;
  uint64_t in_regions = 0;
  rdm_region region{};
  for (size_t i = 0; probe::library().region_get(i, &region) == RDM_OK; ++i) {
    if (region.locked) in_regions += kept_bytes(region);
  }
  if (in_regions != pinned) {
    verdict.broken("%s: regions say %lu KiB pinned, the books %lu", when, in_regions >> 10,
                   pinned >> 10);
  }
}

void* get(size_t size) {
  void* got = malloc(size);
  if (got == nullptr) {
    verdict.broken("malloc of %zu failed", size);
    return nullptr;
  }
  return memset(got, 1, size);
}

void check_alignment() {
  constexpr size_t kAlignment = size_t{1} << 30;
  get(100);
  const uint64_t locked = probe::locked_bytes();
  const uint64_t resident = probe::resident_bytes();
  void* got = aligned_alloc(kAlignment, probe::kPage);
  if (got == nullptr || reinterpret_cast<uintptr_t>(got) % kAlignment != 0) {
    verdict.broken("aligned_alloc gave %p", got);
  } else {
    memset(got, 1, probe::kPage);
  }
  if (probe::locked_bytes() > locked + 8 * kMiB) {
    verdict.broken("a page that is aligned to 1 GiB locked %lu MiB",
                   (probe::locked_bytes() - locked) >> 20);
  }
  if (probe::resident_bytes() > resident + 8 * kMiB) {
    verdict.broken("a page that is aligned to 1 GiB made %lu MiB resident",
                   (probe::resident_bytes() - resident) >> 20);
  }
  check_books("after the alignment");
  check_regions("after the alignment");
  free(got);
}

void check_own_lock() {
  constexpr size_t kOwn = 4 * kMiB;
  void* own = mmap(nullptr, kOwn, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (own == MAP_FAILED || mlock(own, kOwn) != 0) probe::skip("cannot lock 4 MiB");
  get(4 * kMiB);
  check_books("with the program's own lock", kOwn);
  if (probe::stats().overflow_bytes == 0) verdict.broken("all was pinned beside it");
  munlock(own, kOwn);
  const uint64_t locked = probe::locked_bytes();
  get(2 * kMiB);
  if (probe::locked_bytes() < locked + 2 * kMiB) {
    verdict.broken("after the program unlocked 4 MiB nothing is pinned any more");
  }
  check_books("after the program unlocked its own");
}

void check_munlockall() {
  get(8 * kMiB);
  check_books("before munlockall");
  if (probe::stats().pinned_bytes == 0) probe::skip("nothing can be pinned");
  if (munlockall() != 0) probe::skip("munlockall failed");
  if (probe::locked_bytes() != 0) verdict.broken("munlockall left something locked");
  check_books("after munlockall");
  get(32 * kMiB);
  check_books("after more malloc");
}

void check_child() {
  get(8 * kMiB);
  const uint64_t before = probe::stats().pinned_bytes;
  const probe::ChildEnd end = probe::run_child([] {
    if (probe::stats().pinned_bytes != 0) verdict.broken("the child claims pinned bytes");
    check_books("child");
    check_regions("child");
    for (const size_t size : {kMiB / 2, 4 * kMiB, 32 * kMiB}) {
      free(get(size));
      check_books("child with more memory");
      check_regions("child with more memory");
    }
    const probe::ChildEnd grandchild = probe::run_child([] {
      if (probe::stats().pinned_bytes != 0) verdict.broken("the grandchild claims pinned bytes");
      check_books("grandchild");
      get(64 * kMiB);
      check_books("grandchild with more memory");
      return verdict.status();
    });
    verdict.expect_good_end("the grandchild", grandchild);
    return verdict.status();
  });
  verdict.expect_good_end("the child", end);
  if (probe::stats().pinned_bytes != before) verdict.broken("the parent's books changed");
  check_books("parent");
  check_regions("parent");
}

}  // namespace

int main(int argc, char** argv) {
  if (!probe::library().loaded()) probe::skip("needs the library");
  alarm(40);
  const char* what = argc > 1 ? argv[1] : "";
  if (strcmp(what, "alignment") == 0) check_alignment();
  if (strcmp(what, "own-lock") == 0) check_own_lock();
  if (strcmp(what, "munlockall") == 0) check_munlockall();
  if (strcmp(what, "child") == 0) check_child();
  return verdict.status();
}
