/* Forks; the child outlives its parent and then exits normally, not by _exit. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(void) {
  int ends[2];
  char byte;
  void *held = malloc(8 << 20);
  if (held == NULL || pipe(ends) != 0) return 1;
  memset(held, 1, 8 << 20);
  switch (fork()) {
    case -1:
      return 1;
    case 0:
      close(ends[1]);
      (void)!read(ends[0], &byte, 1); /* until the parent is gone */
      exit(0);
    default:
      return 0;
  }
}
