/* A program in an address space without room for a window: malloc must still work, and the
 * program must be told. Without libstdc++, which would not fit either. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rdmalloc/rdmalloc.h"

int main(void) {
  for (size_t size = 16; size <= 65536; size *= 2) {
    char *got = malloc(size);
    if (got == NULL) {
      printf("malloc of %zu failed\n", size);
      return 1;
    }
    memset(got, 1, size);
    if ((got = realloc(got, size * 2)) == NULL) {
      printf("realloc of %zu failed\n", size);
      return 1;
    }
    free(got);
  }
  rdm_stats now;
  int (*stats_get)(rdm_stats *, size_t) = (int (*)(rdm_stats *, size_t))dlsym(RTLD_DEFAULT, "rdm_stats_get");
  if (stats_get == NULL || stats_get(&now, sizeof now) != RDM_OK) return 1;
  if (now.window_bytes != 0) {
    puts("SKIPPED: there was room for a window");
    return 77;
  }
  return 0;
}
