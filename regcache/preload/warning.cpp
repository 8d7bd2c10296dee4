#include "regcache/preload/warning.h"

#include <stdio.h>

#include <atomic>

#include "regcache/preload/switches.h"

namespace rdmalloc::shim {
namespace {

constinit std::atomic<bool> has_warned{false};

}  // namespace

void warn_once(const char* whom, const char* why) {
  bool may_warn = true;
  read_switch("RDMALLOC_WARN", &may_warn);
  if (!may_warn || has_warned.exchange(true)) return;
  char line[512];
  const int length = snprintf(line, sizeof line,
                              "rdmalloc: %s registers malloc'd buffers by itself: %s\n", whom, why);
  if (length > 0) say_sentence(line, static_cast<size_t>(length), sizeof line);
}

}  // namespace rdmalloc::shim
