#include "regcache/backends/verbs_fork_gate.h"

#include <pthread.h>
#include <time.h>

namespace rdmalloc {
namespace {

// A driver that itself forks, or hangs, must not stop all forks for ever.
constexpr int kLongestWaitMs = 10'000;

}  // namespace

constinit VerbsForkGate fork_gate;

void VerbsForkGate::register_handlers() {
  if (registered_.exchange(true)) return;
  (void)pthread_atfork([] { fork_gate.before_fork(); }, [] { fork_gate.after_fork_in_parent(); },
                       [] { fork_gate.after_fork_in_child(); });
}

void VerbsForkGate::before_fork() {
  forks_.fetch_add(1);
  const timespec millisecond{0, 1'000'000};
  for (int i = 0; i < kLongestWaitMs && registering_.load() != 0; ++i) {
    nanosleep(&millisecond, nullptr);
  }
}

// The threads that were counted are not here.
void VerbsForkGate::after_fork_in_child() {
  forks_ = 0;
  registering_ = 0;
}

}  // namespace rdmalloc
