// What callers of the malloc family rely on besides memory: NULL and ENOMEM for sizes too large,
// errno unchanged by success, and the alignments that glibc 2.36 gives.
#include <errno.h>
#include <malloc.h>

#include <initializer_list>

#include "tests/integration/probe.h"

namespace {

probe::Verdict verdict;

constexpr int kUntouched = 0x7e57;
constexpr size_t kTooLarge[] = {size_t{1} << 45, size_t{PTRDIFF_MAX} + 1, SIZE_MAX - 4095,
                                SIZE_MAX};

struct Call {
  const char* name;
  void* (*get)(size_t size);
};

// Sets errno as malloc would; success leaves it unchanged.
void* posix_memalign_of(size_t alignment, size_t size) {
  void* const unset = &verdict;
  void* got = unset;
  const int error = posix_memalign(&got, alignment, size);
  if (error == 0) return got;
  if (got != unset) verdict.broken("posix_memalign(%zu, %zu) set the pointer", alignment, size);
  errno = error;
  return nullptr;
}

// Of one small and one large object, which must outlive the call that failed.
template <size_t kSize>
void* resize(size_t size, void* (*how)(void*, size_t)) {
  const int before = errno;
  auto* old = static_cast<char*>(malloc(kSize));
  if (old == nullptr) probe::refused("out of memory");
  memset(old, 'x', kSize);
  errno = before;
  void* got = how(old, size);
  const int after = errno;
  if (got == nullptr) {
    if (old[0] != 'x' || old[kSize - 1] != 'x')
      verdict.broken("a failed realloc changed the object");
    free(old);
  }
  errno = after;
  return got;
}

void* realloc_of(void* old, size_t size) { return realloc(old, size); }
void* reallocarray_of(void* old, size_t size) { return reallocarray(old, size, 1); }

constexpr size_t kSmall = 10;
constexpr size_t kLarge = 300000;

constexpr Call kCalls[] = {
    {"malloc", [](size_t size) { return malloc(size); }},
    {"calloc", [](size_t size) { return calloc(size, 1); }},
    {"calloc of one", [](size_t size) { return calloc(1, size); }},
    {"realloc of null", [](size_t size) { return realloc(nullptr, size); }},
    {"realloc of a small object", [](size_t size) { return resize<kSmall>(size, realloc_of); }},
    {"realloc of a large object", [](size_t size) { return resize<kLarge>(size, realloc_of); }},
    {"reallocarray", [](size_t size) { return reallocarray(nullptr, 1, size); }},
    {"reallocarray of an object",
     [](size_t size) { return resize<kSmall>(size, reallocarray_of); }},
    {"memalign", [](size_t size) { return memalign(64, size); }},
    {"memalign to 2 MiB", [](size_t size) { return memalign(size_t{2} << 20, size); }},
    {"aligned_alloc", [](size_t size) { return aligned_alloc(4096, size); }},
    {"posix_memalign", [](size_t size) { return posix_memalign_of(4096, size); }},
    {"valloc", [](size_t size) { return valloc(size); }},
    {"pvalloc", [](size_t size) { return pvalloc(size); }},
};

void check_too_large() {
  for (const Call& call : kCalls) {
    for (const size_t size : kTooLarge) {
      errno = kUntouched;
      void* got = call.get(size);
      const int error = errno;
      if (got != nullptr) verdict.broken("%s gave %zu bytes", call.name, size);
      if (error != ENOMEM) verdict.broken("%s of %zu: errno is %d", call.name, size, error);
      free(got);
    }
  }
  volatile size_t half = SIZE_MAX / 2;
  errno = kUntouched;
  if (calloc(half, 3) != nullptr || errno != ENOMEM) verdict.broken("calloc that overflows");
  errno = kUntouched;
  if (reallocarray(nullptr, half, 3) != nullptr || errno != ENOMEM) {
    verdict.broken("reallocarray that overflows");
  }
  errno = kUntouched;
  volatile size_t alignment = size_t{1} << 45;
  if (memalign(alignment, 10) != nullptr || errno != ENOMEM) {
    verdict.broken("memalign to 2^45: errno is %d", errno);
  }
}

// Includes calls that grow the heap, create a thread's cache, or print a warning.
void check_success() {
  for (size_t size = 0; size <= size_t{16} << 20; size = size == 0 ? 1 : size * 4) {
    for (const Call& call : kCalls) {
      if (size == 0 && strstr(call.name, "object") != nullptr) continue;  // that would free it
      errno = kUntouched;
      void* got = call.get(size);
      if (got == nullptr) {
        verdict.broken("%s of %zu failed with errno %d", call.name, size, errno);
        continue;
      }
      if (errno != kUntouched) verdict.broken("%s of %zu set errno %d", call.name, size, errno);
      errno = kUntouched;
      free(got);
      if (errno != kUntouched) verdict.broken("free after %s set errno %d", call.name, errno);
    }
  }
}

// So many at once that they cannot all be aligned by chance.
void check_alignment(const char* what, size_t at_least, size_t size, void* (*get)(size_t)) {
  constexpr size_t kCount = 33;
  void* all[kCount];
  const void* misaligned = nullptr;
  for (void*& got : all) {
    errno = kUntouched;
    got = get(size);
    if (got == nullptr) {
      verdict.broken("%s failed with errno %d", what, errno);
      continue;
    }
    if (errno != kUntouched) verdict.broken("%s set errno %d", what, errno);
    if (reinterpret_cast<uintptr_t>(got) % at_least != 0) misaligned = got;
    if (malloc_usable_size(got) < size) verdict.broken("%s is too short", what);
    memset(got, 1, size);
  }
  if (misaligned != nullptr) verdict.broken("%s of %zu gave %p", what, size, misaligned);
  for (void* got : all) free(got);
}

}  // namespace

int main() {
  check_too_large();
  check_success();
  static volatile size_t odd[] = {0, 3, 24, 48, 3000, 5000};
  check_alignment("memalign(0)", 16, 10, [](size_t size) { return memalign(odd[0], size); });
  check_alignment("memalign(3)", 4, 10, [](size_t size) { return memalign(odd[1], size); });
  check_alignment("memalign(48)", 64, 10, [](size_t size) { return memalign(odd[3], size); });
  check_alignment("memalign(3000)", 4096, 10, [](size_t size) { return memalign(odd[4], size); });
  check_alignment("memalign(5000)", 8192, 100000,
                  [](size_t size) { return memalign(odd[5], size); });
  check_alignment("aligned_alloc(24)", 32, 48,
                  [](size_t size) { return aligned_alloc(odd[2], size); });
  for (const size_t size : {size_t{0}, size_t{1}, size_t{5000}}) {
    check_alignment("valloc", probe::kPage, size, valloc);
    check_alignment("pvalloc", probe::kPage, size, pvalloc);
  }
  void* page = pvalloc(1);
  if (malloc_usable_size(page) < probe::kPage) verdict.broken("pvalloc(1) is not a page");
  return verdict.status();
}
