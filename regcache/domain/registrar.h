// The thread that registers new regions with backends that may not run inside malloc, and retries
// what was refused. It sleeps until it is poked, or for as long as its work says, and then does all
// the work there is. A lookup itself does the work that this thread has not begun.
//
// libc ends a process when the last thread that it started ends, and this is one of them. So once a
// second this thread checks whether it is the only one left, and then ends the process as libc
// would have. It checks only after the main thread has ended, unless that cannot be known: see
// os::MainThreadWatch.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>

#include "allocator/os/thread.h"

namespace rdmalloc {

class Registrar {
 public:
  // Does all work and returns the nanoseconds until there is more; kNever: until poked.
  using Work = uint64_t (*)(void* context);
  static constexpr uint64_t kNever = UINT64_MAX;

  constexpr Registrar(Work work, void* context) : work_(work), context_(context) {}
  Registrar(const Registrar&) = delete;
  Registrar& operator=(const Registrar&) = delete;

  // Starts the thread, once; it blocks all signals. False: it cannot be started, and lookups do
  // everything. Not inside malloc: pthread_create allocates. One thread at a time.
  bool start();
  bool is_started() const { return started_; }

  // Says that there is work. One atomic step and one system call: may be called inside malloc.
  void poke();

  // Waits for the thread to end. Called by the thread that starts it, or under the same lock.
  void stop();

  // In a child of fork there is no such thread.
  void note_fork_child() {
    started_ = false;
    main_thread_.note_fork_child();
  }

 private:
  void loop();
  void sleep(uint32_t pokes, uint64_t ns);

  std::atomic<bool> started_{false};
  pthread_t thread_{};
  const Work work_;
  void* const context_;
  std::atomic<uint32_t> pokes_{0};
  std::atomic<bool> stopping_{false};
  os::MainThreadWatch main_thread_;  // while it is on, the thread does not poll
};

}  // namespace rdmalloc
