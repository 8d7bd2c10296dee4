// After ibv_fork_init(), which UCX calls too, libibverbs hides a range from children
// (MADV_DONTFORK) before it registers it, and backends show it again afterwards: a child without
// its heap dies at its first malloc. So that no fork falls between the two, a fork waits for the
// registrations under way, and a registration that would start meanwhile is put off. Nobody waits
// for a fork: it holds locks that drivers need.
#pragma once

#include <atomic>
#include <cstdint>

namespace rdmalloc {

class ForkGate {
 public:
  constexpr ForkGate() = default;

  // Once, when the first domain is opened. The allocator's handlers are registered already, so
  // these run before it takes malloc's locks.
  void register_handlers();

  // Called in each fork of this process from then on, when no registration is under way and before
  // the heap's locks are taken: what is to be deregistered for the fork may be. Some other thread
  // may have started a fork before; the last one given counts.
  using Release = void (*)(void* context);
  void set_release(Release release, void* context) {
    release_context_ = context;
    release_.store(release, std::memory_order_release);
  }

  // False: a fork is under way; do not register now. Else leave() must follow. Never false inside a
  // registration of this thread's, such as a driver's that calls ibv_reg_mr: the fork waits for it.
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
