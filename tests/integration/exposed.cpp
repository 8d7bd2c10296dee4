// What callers of rdm_alloc(RDM_EXPOSED) rely on.
//
//   exposed calls          sizes, alignments, errors, and every function that takes the pointer
//   exposed until-refused FLAGS  allocations are pinned until one is refused with null and ENOMEM
//   exposed child          a forked child keeps its exposed memory, and new exposed memory is
//                          pinned
//   exposed misuse WAY     ends by abort with a message
#include <errno.h>
#include <malloc.h>

#include <algorithm>

#include "tests/integration/engine_api.h"
#include "tests/integration/exposed.h"

namespace {

using probe::engine;
using probe::kPage;

constexpr size_t kMiB = size_t{1} << 20;

probe::Verdict verdict;

#define EXPECT(condition) \
  if (!(condition)) verdict.broken("line %d: not so: %s", __LINE__, #condition)

char* get(size_t size, size_t alignment = 0) {
  return static_cast<char*>(probe::exposed().alloc(size, alignment, RDM_EXPOSED));
}

// The same pointer, hidden from the compiler's analysis.
char* again(char* pointer) {
  asm volatile("" : "+r"(pointer));
  return pointer;
}

bool is_exposed(const void* pointer) {
  rdm_region region{};
  return pointer != nullptr && probe::library().owns(pointer) == 1 &&
         probe::region_of(pointer, malloc_usable_size(const_cast<void*>(pointer)), &region) &&
         region.exposed == 1 && region.kind == RDM_REGION_PINNED;
}

bool is_filled(const char* bytes, char with, size_t count) {
  return std::all_of(bytes, bytes + count, [with](char byte) { return byte == with; });
}

void check_sizes() {
  for (const size_t size : {size_t{0}, size_t{1}, size_t{100}, kPage, kPage + 1, 3 * kMiB + 5}) {
    char* got = get(size);
    EXPECT(is_exposed(got));
    const size_t usable = malloc_usable_size(got);
    EXPECT(usable % kPage == 0 && usable >= size && usable < size + kPage + (size == 0));
    EXPECT(engine().sallocx(got, 0) == usable);
    memset(got, 'x', usable);
    free(got);
  }
  for (size_t alignment = 1; alignment <= 2 * kMiB; alignment *= 2) {
    char* got = get(100, alignment);
    EXPECT(is_exposed(got));
    EXPECT(reinterpret_cast<uintptr_t>(got) % std::max(alignment, kPage) == 0);
    probe::exposed().free(got);
  }
}

template <typename Call>
void refuses(int error, const char* what, Call call) {
  errno = 0;
  if (call() != nullptr || errno != error) verdict.broken("%s: not null and %d", what, error);
}

void check_errors() {
  for (const size_t size :
       {size_t{1} << 45, size_t{PTRDIFF_MAX}, size_t{PTRDIFF_MAX} + 1, SIZE_MAX - 4095, SIZE_MAX}) {
    refuses(ENOMEM, "too large", [=] { return get(size); });
    char* old = get(10);
    memset(old, 'x', 10);
    refuses(ENOMEM, "realloc to too large", [=] { return realloc(again(old), size); });
    EXPECT(is_filled(old, 'x', 10));
    refuses(ENOMEM, "reallocarray", [=] { return reallocarray(again(old), size, kMiB); });
    EXPECT(engine().rallocx(old, size, 0) == nullptr);
    EXPECT(engine().xallocx(old, size, 0, 0) == kPage);
    free(old);
  }
  refuses(EINVAL, "unknown flag", [] { return probe::exposed().alloc(1, 0, 2); });
  refuses(EINVAL, "alignment of 24", [] { return get(1, 24); });
  refuses(ENOMEM, "alignment of half the addresses", [] { return get(1, size_t{1} << 63); });
  errno = 1234;
  free(get(100));
  EXPECT(errno == 1234);
}

void check_resizing() {
  char* block = get(1000);
  memset(block, 'a', 1000);
  for (const size_t size : {size_t{5000}, 3 * kMiB, size_t{70000}, size_t{1}, 9 * kMiB}) {
    block = static_cast<char*>(realloc(block, size));
    EXPECT(is_exposed(block));
    EXPECT(malloc_usable_size(block) == (size + kPage - 1) / kPage * kPage);
    EXPECT(is_filled(block, 'a', std::min(size, size_t{1})));
    memset(block, 'a', size);
  }
  EXPECT(realloc(block, 0) == nullptr);

  block = get(2 * kPage);
  memset(block, 'b', 2 * kPage);
  block = static_cast<char*>(
      engine().rallocx(block, 64 * kPage, probe::align_flag(kMiB) | probe::kZeroFlag));
  EXPECT(is_exposed(block));
  EXPECT(reinterpret_cast<uintptr_t>(block) % kMiB == 0);
  EXPECT(is_filled(block, 'b', 2 * kPage));
  EXPECT(is_filled(block + 2 * kPage, '\0', 62 * kPage));
  EXPECT(engine().xallocx(block, kPage, 2 * kPage - 1, 0) == 3 * kPage);
  memset(block, 'c', 3 * kPage);
  const size_t grown = engine().xallocx(block, 2 * kPage, 8 * kPage, probe::kZeroFlag);
  EXPECT(grown == 10 * kPage || grown == 3 * kPage);
  EXPECT(grown == malloc_usable_size(block));
  EXPECT(is_filled(block, 'c', 3 * kPage) && is_filled(block + 3 * kPage, '\0', grown - 3 * kPage));
  engine().sdallocx(block, 100, 0);
}

// Frees ordinary and exposed objects through both functions.
void check_crossed() {
  for (const unsigned flags : {0U, unsigned{RDM_EXPOSED}}) {
    for (const size_t size : {size_t{50}, size_t{5000}, kMiB}) {
      free(probe::exposed().alloc(size, 0, flags));
      probe::exposed().free(probe::exposed().alloc(size, 64, flags));
      engine().dallocx(probe::exposed().alloc(size, 0, flags), 0);
    }
  }
  probe::exposed().free(malloc(100));
  probe::exposed().free(nullptr);
  engine().dallocx(get(100), probe::kNoTcacheFlag);
}

void check_books() {
  // Thread caches count as allocated, and a block that grows the heap flushes them.
  engine().mallctl("thread.tcache.flush", nullptr, nullptr, nullptr, 0);
  const uint64_t before = probe::stats().allocated_bytes;
  char* got = get(20 * kMiB);
  const rdm_stats with = probe::stats();
  EXPECT(with.allocated_bytes >= before + 20 * kMiB);
  EXPECT(with.live_bytes >= 20 * kMiB);
  EXPECT(with.pinned_bytes == probe::locked_bytes());
  free(got);
  EXPECT(probe::stats().allocated_bytes < before + kMiB);
}

void check_until_refused(unsigned flags) {
  constexpr size_t kBlock = 256 << 10;
  constexpr size_t kMost = 64 * kMiB / kBlock;
  size_t got = 0;
  errno = 0;
  for (void* block = nullptr; got < kMost; ++got) {
    block = probe::exposed().alloc(kBlock, 0, flags);
    if (block == nullptr) break;
    if (flags == RDM_EXPOSED && !is_exposed(block)) verdict.broken("block %zu is not pinned", got);
    memset(block, 'x', kBlock);
  }
  if (got == 0 || got == kMost) verdict.broken("%zu blocks of %zu were given", got, kMost);
  EXPECT(errno == ENOMEM);
  EXPECT(probe::stats().pinned_bytes == probe::locked_bytes());
  // malloc continues beyond the budget.
  void* ordinary = malloc(16 * kMiB);
  EXPECT(ordinary != nullptr && !is_exposed(ordinary));
}

void check_child() {
  char* kept = get(5 * kPage);
  char* freed = get(5 * kPage);
  memset(kept, 'k', 5 * kPage);
  free(freed);
  const probe::ChildEnd end = probe::run_child([&] {
    EXPECT(is_filled(kept, 'k', 5 * kPage));
    const uint64_t locked = probe::locked_bytes();
    for (const size_t size : {5 * kPage, kPage, 2 * kMiB}) {
      rdm_region region{};
      EXPECT(probe::region_of(get(size), size, &region));
      EXPECT(region.exposed == 1 && region.locked == 1);
    }
    EXPECT(probe::locked_bytes() >= locked + 2 * kMiB);
    EXPECT(probe::stats().pinned_bytes == probe::locked_bytes());
    kept = static_cast<char*>(realloc(kept, 50 * kPage));
    EXPECT(is_filled(kept, 'k', 5 * kPage));
    rdm_region region{};
    EXPECT(probe::region_of(kept, 50 * kPage, &region) && region.locked == 1);
    free(kept);
    return verdict.status();
  });
  verdict.expect_good_end("the child", end);
  EXPECT(is_filled(kept, 'k', 5 * kPage));
  free(kept);
}

void misuse(const char* way) {
  char* block = get(3 * kPage);
  char* other = get(kPage);
  free(again(strcmp(way, "twice") == 0 || strcmp(way, "realloc") == 0 ? block : nullptr));
  if (strcmp(way, "twice") == 0) free(again(block));
  if (strcmp(way, "inside") == 0) free(again(block) + kPage);
  if (strcmp(way, "unaligned") == 0) probe::exposed().free(again(block) + 16);
  if (strcmp(way, "realloc") == 0) (void)!realloc(again(block), 100);
  if (strcmp(way, "usable") == 0) (void)malloc_usable_size(again(other) + kPage);
  verdict.broken("misuse went by unseen");
}

}  // namespace

int main(int argc, char** argv) {
  if (!probe::library().loaded()) probe::skip("needs the library");
  alarm(50);
  const char* what = argc > 1 ? argv[1] : "";
  if (strcmp(what, "calls") == 0) {
    check_sizes();
    check_errors();
    check_resizing();
    check_crossed();
    check_books();
  }
  if (strcmp(what, "until-refused") == 0) {
    check_until_refused(static_cast<unsigned>(probe::argument(argc, argv, 2, RDM_EXPOSED)));
  }
  if (strcmp(what, "child") == 0) check_child();
  if (strcmp(what, "misuse") == 0) misuse(argc > 2 ? argv[2] : "");
  return verdict.status();
}
