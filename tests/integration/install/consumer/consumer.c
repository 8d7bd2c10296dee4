/* A program that only links rdmalloc: its own allocations and libc's must come from the window.
 *
 *   consumer SONAME */
#define _XOPEN_SOURCE 700 /* realpath */
#include <rdmalloc/rdmalloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int mapped(const char *name) {
  char line[4096];
  int found = 0;
  FILE *maps = fopen("/proc/self/maps", "r");
  if (maps == NULL) return 0;
  while (fgets(line, sizeof line, maps) != NULL) found |= strstr(line, name) != NULL;
  fclose(maps);
  return found;
}

int main(int count, char **words) {
  void *small = malloc(10);
  void *large = malloc(10 << 20);
  char *path = realpath("/proc/self/exe", NULL); /* libc allocates it */
  int on_stack = 0;
  rdm_stats stats;
  if (count != 2 || !mapped(words[1])) return puts("the library is not mapped by its SONAME"), 1;
  if (small == NULL || large == NULL || path == NULL) return puts("no memory"), 1;
  if (!rdm_owns(small) || !rdm_owns(large)) return puts("malloc is not rdmalloc's"), 1;
  if (!rdm_owns(path)) return puts("libc's malloc is not rdmalloc's"), 1;
  if (rdm_owns(&on_stack)) return puts("the stack is said to be in the window"), 1;
  if (rdm_stats_get(&stats, sizeof stats) != RDM_OK) return puts(rdm_strerror(RDM_SYSTEM)), 1;
  if (stats.held_bytes < 10 << 20) return puts("10 MiB live, but less is held"), 1;
  free(path);
  free(large);
  free(small);
  return 0;
}
