// Keeps forks and registrations apart. After ibv_fork_init(), which UCX calls, too, libibverbs
// hides a range from children (MADV_DONTFORK) before it registers it, and backends make it visible
// again afterwards: a child without its heap would die at its first malloc. So that no fork comes
// between the two, a fork waits for registrations in progress that may hide something, and one that
// would start meanwhile is put off. Nobody waits for a fork, because it holds locks that drivers
// need.
#pragma once

#include <atomic>
#include <cstdint>

namespace rdmalloc {

class ForkGate {
 public:
  constexpr ForkGate() = default;

  // Called once, when the first domain is opened. The allocator's handlers are registered already,
  // so these run before the allocator takes malloc's locks.
  void register_handlers();

  // Sets a function that each later fork of this process calls, when no registration is in progress
  // and before the heap's locks are taken, to deregister what must not be registered during the
  // fork. Another thread may already have started a fork. The last function set counts.
  using Release = void (*)(void* context);
  void set_release(Release release, void* context) {
    release_context_ = context;
    release_.store(release, std::memory_order_release);
  }

  // A registration that hides nothing from children need not enter, and then no fork waits for it;
  // except where forks deregister, which others must not undo.
  bool deregisters() const { return release_.load(std::memory_order_acquire) != nullptr; }

  // False: a fork is in progress; do not register now. Otherwise leave() must follow. Never false
  // inside a registration of this thread, such as a driver's that calls ibv_reg_mr: the fork waits
  // for it.
  bool enter();
  void leave();

 private:
  void before_fork();
  void after_fork_in_parent() { forks_.fetch_sub(1); }
  void after_fork_in_child();

  std::atomic<Release> release_{nullptr};
  void* release_context_ = nullptr;
  std::atomic<bool> registered_{false};
  std::atomic<uint32_t> forks_{0};
  std::atomic<uint32_t> registering_{0};
};

extern ForkGate fork_gate;

}  // namespace rdmalloc
