#include "regcache/preload/verbs_settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "include/rdmalloc/rdmalloc.h"

namespace rdmalloc::shim {
namespace {

constinit Settings current;
constinit std::atomic<bool> warned{false};

// librdmalloc names what is malformed; here it keeps the default.
void read_switch(const char* variable, bool* value) {
  const char* text = getenv(variable);
  if (text == nullptr) return;
  for (const char* word : {"on", "1", "yes", "true"}) {
    if (strcmp(text, word) == 0) *value = true;
  }
  for (const char* word : {"off", "0", "no", "false"}) {
    if (strcmp(text, word) == 0) *value = false;
  }
}

// By write(): the program may have closed, or be in, its stdio.
void say(const char* line, int length) {
  if (length > 0 && write(STDERR_FILENO, line, static_cast<size_t>(length)) < 0) return;
}

unsigned long long value(const std::atomic<uint64_t>& counter) {
  return counter.load(std::memory_order_relaxed);
}

}  // namespace

constinit Counters counters;

void read_settings() {
  read_switch("RDMALLOC_VERBS_SHARE_REMOTE", &current.share_remote);
  read_switch("RDMALLOC_VERBS_STATS", &current.stats);
  read_switch("RDMALLOC_WARN", &current.warn);
}

const Settings& settings() { return current; }

void print_stats() {
  if (!current.stats || counters.calls == 0) return;
  rdm_stats heap{};
  (void)rdm_stats_get(&heap, sizeof heap);
  char line[256];
  say(line, snprintf(line, sizeof line,
                     "rdmalloc-verbs: %llu calls of ibv_reg_mr: %llu answered from regions, %llu "
                     "passed on; %llu regions registered\n",
                     value(counters.calls), value(counters.answered), value(counters.passed),
                     static_cast<unsigned long long>(heap.registrations)));
}

void warn_once(const char* why) {
  if (!current.warn || warned.exchange(true)) return;
  char line[512];
  say(line, snprintf(line, sizeof line,
                     "rdmalloc: verbs memory regions are left to libibverbs: %s\n", why));
}

}  // namespace rdmalloc::shim
