#include "regcache/preload/warning.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <atomic>

namespace rdmalloc::shim {
namespace {

constinit std::atomic<bool> has_warned{false};

// librdmalloc names what is malformed; here it counts as on.
bool may_warn() {
  const char* text = getenv("RDMALLOC_WARN");
  if (text == nullptr) return true;
  for (const char* word : {"off", "0", "no", "false"}) {
    if (strcmp(text, word) == 0) return false;
  }
  return true;
}

}  // namespace

// By write(): the program may have closed, or be in, its stdio.
void warn_once(const char* whom, const char* why) {
  if (!may_warn() || has_warned.exchange(true)) return;
  char line[512];
  const int length = snprintf(line, sizeof line,
                              "rdmalloc: %s registers malloc'd buffers by itself: %s\n", whom, why);
  if (length < 0) return;
  // The line ends with its sentence, also where that is cut.
  size_t bytes = static_cast<size_t>(length);
  if (bytes >= sizeof line) {
    bytes = sizeof line - 1;
    line[bytes - 1] = '\n';
  }
  if (write(STDERR_FILENO, line, bytes) < 0) return;
}

}  // namespace rdmalloc::shim
