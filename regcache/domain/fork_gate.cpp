#include "regcache/domain/fork_gate.h"

#include <pthread.h>

#include "allocator/os/thread.h"
#include "regcache/domain/fork_wait.h"
#include "regcache/domain/in_backend.h"

namespace rdmalloc {
namespace {

// This thread's own registrations in progress: a driver may fork, and must not wait for itself.
constinit thread_local uint32_t own_registrations = 0;

}  // namespace

constinit ForkGate fork_gate;

void ForkGate::register_handlers() {
  if (registered_.exchange(true)) return;
  (void)pthread_atfork([] { fork_gate.before_fork(); }, [] { fork_gate.after_fork_in_parent(); },
                       [] { fork_gate.after_fork_in_child(); });
}

bool ForkGate::enter() {
  registering_.fetch_add(1);
  ++own_registrations;
  if (forks_.load() == 0 || own_registrations > 1) return true;
  leave();
  return false;
}

void ForkGate::leave() {
  --own_registrations;
  registering_.fetch_sub(1);
}

void ForkGate::before_fork() {
  const os::NoCancel no_cancel;  // deregistering may be a cancellation point; fork() is not
  forks_.fetch_add(1);
  (void)wait_before_fork([this] { return registering_.load() <= own_registrations; });
  // Not from within a driver, which may hold locks that deregistering needs.
  const Release release = release_.load(std::memory_order_acquire);
  const bool is_in_driver = own_registrations != 0 || InBackend::is_here;
  if (release != nullptr && !is_in_driver) release(release_context_);
}

// Of the counted threads only this one exists in the child; it continues its registration.
void ForkGate::after_fork_in_child() {
  forks_ = 0;
  registering_ = own_registrations;
}

}  // namespace rdmalloc
