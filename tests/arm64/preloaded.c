/* Allocates under the preloaded library: small and large blocks that grow, in threads and in a
 * child of fork. Exits with 1 if a block is not the library's or lost a byte. */
#define _GNU_SOURCE
#include <dlfcn.h>
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
  printf("- with pages of %ld bytes all blocks are the library's\n", sysconf(_SC_PAGESIZE));
  return 0;
}
