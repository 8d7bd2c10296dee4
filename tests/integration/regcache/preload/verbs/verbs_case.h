// A program of the verbs tests: it runs the case named on the command line, and the first broken
// promise ends it.
#pragma once

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fake_libibverbs.h"

namespace verbs {

inline void promise(bool kept, const char* what) {
  if (kept) return;
  printf("not kept: %s\n", what);
  fflush(stdout);
  _exit(1);
}

// The books, once nothing has been registered for a moment: the registrar may be working on a new
// region.
inline FakeBooks settled_books() {
  for (;;) {
    const FakeBooks books = fake_books();
    usleep(20'000);
    if (fake_books().registered == books.registered) return books;
  }
}

struct Case {
  const char* name;
  int (*run)();
};

template <size_t kCount>
int run_case(const Case (&cases)[kCount], int argc, char** argv) {
  for (const Case& it : cases) {
    if (argc == 2 && strcmp(argv[1], it.name) == 0) return it.run();
  }
  fprintf(stderr, "usage: %s CASE\n", argv[0]);
  return 2;
}

}  // namespace verbs
