// Large blocks on a stack of 8 KiB, as fibers have: malloc, calloc, realloc and free, growing and
// gathering the heap, stay within their allowance of stack. The stack is painted beforehand;
// overwritten paint shows what was used. Below it lies a guard page.
//
//   little_stack MOST_BYTES [FRAME]     FRAME: bytes that the fiber itself takes first (the
//                                       control)
#include <alloca.h>
#include <malloc.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "tests/integration/probe.h"

namespace {

constexpr size_t kStack = 8192;
constexpr unsigned char kPaint = 0x5A;
constexpr size_t kMiB = size_t{1} << 20;

probe::Verdict verdict;
ucontext_t main_context;
ucontext_t fiber;
void (*job)();
size_t own_frame = 0;

unsigned char* make_stack() {
  void* got = mmap(nullptr, probe::kPage + kStack, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (got == MAP_FAILED || mprotect(got, probe::kPage, PROT_NONE) != 0) probe::skip("no stack");
  return static_cast<unsigned char*>(got) + probe::kPage;
}

void run_fiber() {
  if (own_frame != 0) memset(alloca(own_frame), 1, own_frame);
  job();
}

// Bytes of the stack that a job uses.
size_t depth_of(void (*what)()) {
  static unsigned char* const stack = make_stack();
  memset(stack, kPaint, kStack);
  job = what;
  if (getcontext(&fiber) != 0) probe::skip("no contexts");
  fiber.uc_stack.ss_sp = stack;
  fiber.uc_stack.ss_size = kStack;
  fiber.uc_link = &main_context;
  makecontext(&fiber, run_fiber, 0);
  if (swapcontext(&main_context, &fiber) != 0) probe::skip("no contexts");
  size_t unused = 0;
  while (unused < kStack && stack[unused] == kPaint) ++unused;
  return kStack - unused;
}

void nothing() {}

void* blocks[64];

// Each doubling exceeds all that is held.
void grow_by_malloc() {
  for (size_t i = 0; i < 12; ++i) blocks[i] = malloc(size_t{48 << 10} << i);
}
void grow_by_calloc() { blocks[12] = calloc(1, 96 * kMiB); }
void grow_by_realloc() { blocks[12] = realloc(blocks[12], 200 * kMiB); }
void grow_aligned() { blocks[13] = aligned_alloc(8 * kMiB, 8 * kMiB); }
void grow_small() {
  for (size_t i = 20; i < 60; ++i) blocks[i] = malloc(size_t{1} << (i % 15));
}
void free_all() {
  for (void*& block : blocks) {
    free(block);
    block = nullptr;
  }
}
// No hole is that large.
void gather() { blocks[0] = malloc(300 * kMiB); }

}  // namespace

int main(int argc, char** argv) {
  const size_t most = probe::argument(argc, argv, 1, 2048);
  own_frame = probe::argument(argc, argv, 2, 0);
  // On first call of a name the dynamic linker binds it, using one to three kilobytes of stack.
  free(realloc(calloc(1, 100), 1000));
  free(aligned_alloc(64, 64));
  free(malloc(100 << 10));
  const size_t frame = own_frame;
  own_frame = 0;
  const size_t base = depth_of(nothing);
  own_frame = frame;
  static const struct {
    const char* name;
    void (*job)();
  } kJobs[] = {{"malloc", grow_by_malloc},    {"calloc", grow_by_calloc},
               {"realloc", grow_by_realloc},  {"aligned_alloc", grow_aligned},
               {"small objects", grow_small}, {"free", free_all},
               {"gathering", gather},         {"free again", free_all}};
  for (const auto& tried : kJobs) {
    const uint64_t held = probe::stats().peak_held_bytes;
    const size_t depth = depth_of(tried.job) - base;
    printf("%s: %zu bytes of stack, %lu KiB more held\n", tried.name, depth,
           (probe::stats().peak_held_bytes - held) >> 10);
    // jemalloc's objects get a page of stack; jemalloc itself needs half of it.
    const bool is_small = tried.job == grow_small;
    if (depth > (is_small ? 2 * most : most))
      verdict.broken("%s uses %zu bytes of stack", tried.name, depth);
  }
  if (probe::library().loaded() && probe::stats().retired_bytes == 0) {
    verdict.broken("nothing was gathered or moved");
  }
  return verdict.status();
}
