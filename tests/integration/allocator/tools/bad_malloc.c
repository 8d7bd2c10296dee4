// An allocator that breaks one promise, named by BAD_MALLOC, which a checked replay must detect.
// Preloaded over libc's.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static int is_bad(const char* promise) {
  const char* broken = getenv("BAD_MALLOC");
  return broken != NULL && strcmp(broken, promise) == 0;
}

static void* next(const char* name) { return dlsym(RTLD_NEXT, name); }

// Two blocks of this size share memory.
enum { kShared = 777 };
static char shared[kShared] __attribute__((aligned(16)));

void* malloc(size_t size) {
  if (is_bad("distinct") && size == kShared) return shared;
  char* block = ((void* (*)(size_t))next("malloc"))(size + 8);
  return is_bad("aligned") && block != NULL ? block + 8 : block;
}

void free(void* block) {
  if (block == shared) return;
  if (is_bad("aligned") && block != NULL) block = (char*)block - 8;
  ((void (*)(void*))next("free"))(block);
}

void* calloc(size_t count, size_t size) {
  char* block = ((void* (*)(size_t, size_t))next("calloc"))(count, size);
  if (is_bad("zeroed") && block != NULL && count * size > 0) block[count * size - 1] = 1;
  return block;
}

void* realloc(void* before, size_t size) {
  char* block = ((void* (*)(void*, size_t))next("realloc"))(before, size);
  if (is_bad("kept") && block != NULL && before != NULL) block[0] = (char)(block[0] ^ 1);
  return block;
}
