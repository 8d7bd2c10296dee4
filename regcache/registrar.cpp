#include "regcache/registrar.h"

#include <stdlib.h>
#include <unistd.h>

#include "allocator/os/futex.h"
#include "allocator/os/thread.h"

namespace rdmalloc {

bool Registrar::start(Work work, void* context) {
  if (started_) return true;
  work_ = work;
  context_ = context;
  stopping_ = false;
  const auto run = [](void* self) -> void* {
    static_cast<Registrar*>(self)->loop();
    return nullptr;
  };
  started_ = os::start_thread(&thread_, "rdmalloc-reg", 0, run, this) == 0;
  return started_;
}

void Registrar::loop() {
  constexpr uint64_t kSoonNs = 2'000'000;
  constexpr uint64_t kWatchNs = 1'000'000'000;
  const pid_t process = getpid();
  while (!stopping_) {
    const uint32_t seen = pokes_.load(std::memory_order_acquire);
    const bool done = work_(context_);
    // A driver that forks here leaves its child with this thread alone, which has no work there.
    if (stopping_ || getpid() != process) break;
    // A poke during the work changed the word: no sleep then.
    os::wait_while_for(pokes_, seen, done ? kWatchNs : kSoonNs);
    if (pokes_.load(std::memory_order_acquire) == seen && os::is_only_ours_left()) exit(0);
  }
}

void Registrar::poke() {
  pokes_.fetch_add(1, std::memory_order_release);
  os::wake_all(pokes_);
}

void Registrar::stop() {
  if (!started_) return;
  stopping_ = true;
  poke();
  pthread_join(thread_, nullptr);
  started_ = false;
}

}  // namespace rdmalloc
