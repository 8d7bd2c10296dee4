// Calls the library's functions before anything else has run: from .preinit_array, before libc and
// the library itself are initialised.
#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>

#include "tests/integration/probe.h"

namespace {

int early_errors = 0;

void expect(bool right) {
  if (!right) ++early_errors;
}

void call_early(int, char**, char**) {
  constexpr int kNew = MAP_PRIVATE | MAP_ANONYMOUS;
  // Whole pages of any size: probe::kPage is not known yet.
  constexpr size_t kUnit = size_t{64} << 10;
  constexpr size_t kLength = 4 * kUnit;
  auto* const memory =
      static_cast<char*>(mmap(nullptr, kLength, PROT_READ | PROT_WRITE, kNew, -1, 0));
  expect(memory != MAP_FAILED);
  memory[0] = 1;
  expect(madvise(memory, kUnit, MADV_DONTNEED) == 0 && memory[0] == 0);
  expect(mprotect(memory, kUnit, PROT_READ) == 0);
  expect(mmap(memory, kUnit, PROT_READ, kNew | MAP_FIXED, -1, 0) == memory);
  expect(mremap(memory + kUnit, kUnit, kUnit, 0) == memory + kUnit);
  errno = 0;
  expect(munmap(memory + 1, kUnit) == -1 && errno == EINVAL);
  expect(munmap(memory, kLength) == 0);
  auto* const end = static_cast<char*>(sbrk(kUnit));
  expect(end != reinterpret_cast<char*>(-1) && brk(end) == 0 && sbrk(0) == end);
  pthread_t thread{};
  void* result = nullptr;
  int mark = 0;
  expect(pthread_create(
             &thread, nullptr, [](void* in) { return in; }, &mark) == 0);
  expect(pthread_join(thread, &result) == 0 && result == &mark);
  free(malloc(100));
}

[[gnu::section(".preinit_array"), gnu::used]] void (*const at_preinit)(int, char**,
                                                                       char**) = call_early;

}  // namespace

int main() {
  if (early_errors != 0) printf("%d calls were wrong\n", early_errors);
  if (!probe::library().loaded()) probe::skip("needs the library");
  return early_errors == 0 ? probe::kHolds : probe::kBroken;
}
