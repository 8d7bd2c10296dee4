#include "regcache/preload/verbs/settings.h"

#include <stdio.h>

#include "include/rdmalloc/rdmalloc.h"
#include "regcache/preload/switches.h"

namespace rdmalloc::shim {
namespace {

constinit Settings current;
constinit std::atomic<bool> warned{false};

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
  const int length =
      snprintf(line, sizeof line,
               "rdmalloc-verbs: %llu calls of ibv_reg_mr: %llu answered from regions, %llu "
               "passed on; %llu regions registered\n",
               value(counters.calls), value(counters.answered), value(counters.passed),
               static_cast<unsigned long long>(heap.registrations));
  if (length > 0) say(line, static_cast<size_t>(length));
}

void warn_once(const char* why) {
  if (!current.warn || warned.exchange(true)) return;
  char line[512];
  const int length = snprintf(line, sizeof line,
                              "rdmalloc: verbs memory regions are left to libibverbs: %s\n", why);
  if (length > 0) say_sentence(line, static_cast<size_t>(length), sizeof line);
}

}  // namespace rdmalloc::shim
