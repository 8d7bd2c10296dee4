// Ranks for the tests of shared-memory segments: processes that run this program again, one per
// rank, all started at once.
#pragma once

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "rdmalloc/shm.h"
#include "tests/support/child.h"

namespace shm_test {

using rdmalloc::test::ChildEnd;
using rdmalloc::test::end_of;
using rdmalloc::test::end_within;
using rdmalloc::test::kill_child;
using rdmalloc::test::run_child;

struct Layout {
  const char* name;
  unsigned value;
};
inline constexpr Layout kLayouts[] = {{"page", RDM_SHM_PAGE},
                                      {"cacheline", RDM_SHM_CACHELINE},
                                      {"aggregated", RDM_SHM_AGGREGATED},
                                      {"mpsc", RDM_SHM_MPSC}};
inline constexpr unsigned kNoLayout = ~0U;

inline unsigned layout_of(const std::string& name) {
  for (const Layout& layout : kLayouts) {
    if (name == layout.name) return layout.value;
  }
  return kNoLayout;
}

inline rdm_shm_plan_options plan_for(unsigned procs, unsigned layout) {
  rdm_shm_plan_options plan = {};
  plan.size = sizeof plan;
  plan.procs = procs;
  plan.layout = layout;
  return plan;
}

inline rdm_shm_options patience(unsigned timeout_ms) {
  rdm_shm_options options = {};
  options.size = sizeof options;
  options.timeout_ms = timeout_ms;
  return options;
}

// Rank 0 creates, the others attach. A test uses each name once.
inline int enter(const char* name, const rdm_shm_plan_options& plan, unsigned rank,
                 unsigned timeout_ms, rdm_shm** out) {
  const rdm_shm_options options = patience(timeout_ms);
  return rank == 0 ? rdm_shm_create(name, &plan, rank, &options, out)
                   : rdm_shm_attach(name, rank, &options, out);
}

inline std::string fresh_name(const char* what) {
  return "rdmalloc-test-" + std::to_string(getpid()) + "-" + what;
}

inline bool is_in_dev_shm(const std::string& name) {
  struct stat facts;
  return lstat(("/dev/shm/" + name).c_str(), &facts) == 0;
}

// Ends the program with status 1: a promise is broken.
[[noreturn]] [[gnu::format(printf, 1, 2)]] inline void broken(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vfprintf(stderr, format, arguments);
  va_end(arguments);
  fputc('\n', stderr);
  _exit(1);
}

// Starts this program again with these arguments; it dies with its parent.
inline pid_t start(const std::vector<std::string>& arguments) {
  const pid_t child = rdmalloc::test::fork_bound();
  if (child != 0) return child;
  std::vector<char*> words = {const_cast<char*>("/proc/self/exe")};
  for (const std::string& word : arguments) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  execv(words[0], words.data());
  _exit(126);
}

}  // namespace shm_test
