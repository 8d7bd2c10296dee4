/* A program that defines and exports its own malloc. */
#include <stddef.h>

static char store[1 << 16];
static size_t used;

void* malloc(size_t size) {
  void* start = store + used;
  used += (size + 15) & ~(size_t)15;
  return used <= sizeof store ? start : NULL;
}

void free(void* pointer) { (void)pointer; }

int main(void) { return malloc(1) == NULL; }
