// What the user set for the shim, and what it says and counts.
#pragma once

#include <atomic>
#include <cstdint>

namespace rdmalloc::shim {

struct Settings {
  bool share_remote = false;  // RDMALLOC_VERBS_SHARE_REMOTE
  bool stats = false;         // RDMALLOC_VERBS_STATS
  bool warn = true;           // RDMALLOC_WARN
};

// From the environment, once, before main; later read only.
void read_settings();
const Settings& settings();

struct Counters {
  std::atomic<uint64_t> calls{0};     // of ibv_reg_mr*, by anybody
  std::atomic<uint64_t> answered{0};  // from regions: no system call
  std::atomic<uint64_t> passed{0};    // to libibverbs
};
extern Counters counters;

// The counters in one line on standard error, if asked for and anybody called.
void print_stats();

// Why window memory is not answered, once for the process.
void warn_once(const char* why);

}  // namespace rdmalloc::shim
