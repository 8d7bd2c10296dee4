/* Allocates under the preloaded library: small and large blocks that grow, in threads and in a
 * child of fork, and blocks that get larger by their alignment. Exits with 1 if a block is not the
 * library's, lost a byte, or is not zero where it was to be. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kThreads = 4, kRounds = 50, kLargest = 4 << 20 };

static int (*owns)(const void*);

static void fail(const char* what) {
  fprintf(stderr, "FAILED: %s\n", what);
  _exit(1);
}

static void* allocate(void* seed) {
  const unsigned char fill = (unsigned char)(1 + *(int*)seed);
  for (int round = 0; round < kRounds; ++round) {
    size_t size = 16;
    unsigned char* block = malloc(size);
    for (;;) {
      if (block == NULL) fail("no memory");
      if (!owns(block) || !owns(block + size - 1)) fail("a block is not the library's");
      memset(block, fill, size);
      if (size >= kLargest) break;
      const size_t grown = size * 4;
      block = realloc(block, grown);
      for (size_t i = 0; block != NULL && i < size; ++i) {
        if (block[i] != fill) fail("a block lost a byte as it grew");
      }
      size = grown;
    }
    free(block);
  }
  return NULL;
}

/* On pages of 64 KiB an object of a few bytes with a large alignment takes 256 KiB: more than the
 * block that it was before. */
static void realign(void) {
  enum { kBlock = 100 << 10, kLgAlign = 17, kZero = 0x40, kTimes = 8 };
  void* (*rallocx)(void*, size_t, int) = (void* (*)(void*, size_t, int))dlsym(RTLD_DEFAULT, "rallocx");
  unsigned char* objects[kTimes];
  for (int used = 0; used < 2; ++used) {
    for (int i = 0; i < kTimes; ++i) {
      unsigned char* const block = malloc(kBlock);
      if (block == NULL) fail("no memory");
      const size_t before = malloc_usable_size(block);
      memset(block, 1, before);
      objects[i] = rallocx(block, 6000, kLgAlign | kZero);
      if (objects[i] == NULL) fail("no aligned memory");
      const size_t now = malloc_usable_size(objects[i]);
      for (size_t at = before; at < now; ++at) {
        if (objects[i][at] != 0) fail("a block that was to be zero at its end is not");
      }
      memset(objects[i], 1, now);
    }
    for (int i = 0; i < kTimes; ++i) free(objects[i]);
  }
}

int main(void) {
  owns = (int (*)(const void*))dlsym(RTLD_DEFAULT, "rdm_owns");
  if (owns == NULL) fail("the library is not preloaded");
  int seeds[kThreads];
  pthread_t threads[kThreads];
  for (int i = 0; i < kThreads; ++i) {
    seeds[i] = i;
    if (pthread_create(&threads[i], NULL, allocate, &seeds[i]) != 0) fail("no thread");
  }
  for (int i = 0; i < kThreads; ++i) pthread_join(threads[i], NULL);
  const pid_t child = fork();
  if (child == 0) {
    allocate(&seeds[0]);
    _exit(0);
  }
  int status = 1;
  if (child < 0 || waitpid(child, &status, 0) != child || status != 0) fail("a child of fork");
  realign();
  printf("- with pages of %ld bytes all blocks are the library's\n", sysconf(_SC_PAGESIZE));
  return 0;
}
