/* Preloaded behind the library: dlsym() as it was before glibc 2.34, where a thread's first lookup
 * mallocs. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>

typedef void *(*Lookup)(void *, const char *);

/* libc's own, by the versions that it has on one machine or another. */
static Lookup libc_dlsym(void) {
  static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5"};
  for (size_t i = 0; i < sizeof versions / sizeof versions[0]; ++i) {
    const Lookup found = (Lookup)dlvsym(RTLD_NEXT, "dlsym", versions[i]);
    if (found != NULL) return found;
  }
  abort();
}

void *dlsym(void *handle, const char *name) {
  static __thread void *result __attribute__((tls_model("initial-exec")));
  if (result == NULL) result = calloc(1, 32);
  return libc_dlsym()(handle, name);
}
