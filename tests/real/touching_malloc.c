/* A preloaded malloc that makes all its memory resident: the control for the tests that memory
 * which a program does not touch costs nothing. */
#include <stddef.h>
#include <string.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);

static void *touched(void *block, size_t size) {
  enum { kPage = 4096 };
  volatile char *bytes = block;
  if (block == NULL) return NULL;
  for (size_t at = 0; at < size; at += kPage) bytes[at] = bytes[at];
  return block;
}

void *malloc(size_t size) { return touched(__libc_malloc(size), size); }

void *calloc(size_t count, size_t size) {
  return touched(__libc_calloc(count, size), count * size);
}
