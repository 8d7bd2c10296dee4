#include "regcache/shm/failure.h"

#include <stdarg.h>
#include <stdio.h>

namespace rdmalloc::shm {

namespace {

// Plain memory needs no construction, so no guard and no destructor at thread exit.
thread_local char sentence[256];

}  // namespace

int fail(int status, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(sentence, sizeof sentence, format, arguments);
  va_end(arguments);
  return status;
}

const char* last_failure() { return sentence; }

}  // namespace rdmalloc::shm
