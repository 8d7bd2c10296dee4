/* A program linked to the library, which setuid.sh compiles. `setuid must`: skipped unless its
 * user changed at start. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rdmalloc/rdmalloc.h"

int main(int argc, char **argv) {
  if (argc > 1 && strcmp(argv[1], "must") == 0 && geteuid() == getuid()) {
    puts("SKIPPED: this file system ignores the setuid bit");
    return 77;
  }
  void *pointer = malloc(10000);
  if (pointer == NULL || !rdm_owns(pointer)) {
    puts("malloc is not the library's");
    return 1;
  }
  free(pointer);
  return 0;
}
