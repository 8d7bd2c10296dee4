// The thread that registers new regions with backends that may not run inside malloc, and tries
// again what was refused. It sleeps until poked, or until its work says so, then does all the work
// there is; what it has not begun yet, a lookup does.
//
// libc ends a process when the last thread that it started ends, and this is one of them: so once a
// second it looks whether it is alone, and then ends the process as libc would have. It does so
// only when the main thread has ended, unless nobody tells it of that: see os::MainThreadWatch.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>

#include "allocator/os/thread.h"

namespace rdmalloc {

class Registrar {
 public:
  // Nanoseconds until there is more to do; kNever: until poked.
  using Work = uint64_t (*)(void* context);
  static constexpr uint64_t kNever = UINT64_MAX;

  constexpr Registrar() = default;
  Registrar(const Registrar&) = delete;
  Registrar& operator=(const Registrar&) = delete;

  // Starts the thread, once; it blocks all signals. False when there can be none, and then lookups
  // do everything. Not inside malloc: pthread_create allocates. One thread at a time.
  bool start(Work work, void* context);
  bool is_started() const { return started_; }

  // There is work. One atomic step and one system call: may be called inside malloc.
  void poke();

  // Waits for the thread to end. By the thread that starts it, or under the same lock.
  void stop();

  // In the child of a fork there is no such thread.
  void note_fork_child() {
    started_ = false;
    main_thread_.note_fork_child();
  }

 private:
  void loop();
  void sleep(uint32_t pokes, uint64_t ns);

  std::atomic<bool> started_{false};
  pthread_t thread_{};
  Work work_ = nullptr;
  void* context_ = nullptr;
  std::atomic<uint32_t> pokes_{0};
  std::atomic<bool> stopping_{false};
  os::MainThreadWatch main_thread_;  // while it is on, nothing is looked at by time
};

}  // namespace rdmalloc
