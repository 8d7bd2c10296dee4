#include "regcache/domain/registrar.h"

#include <stdlib.h>
#include <unistd.h>

#include "allocator/os/clock.h"
#include "allocator/os/futex.h"

namespace rdmalloc {

bool Registrar::start() {
  if (started_) return true;
  stopping_ = false;
  main_thread_.start([](void* self) { static_cast<Registrar*>(self)->poke(); }, this);
  const auto run = [](void* self) -> void* {
    static_cast<Registrar*>(self)->loop();
    return nullptr;
  };
  started_ = os::start_thread(&thread_, "rdmalloc-reg", 0, run, this) == 0;
  return started_;
}

void Registrar::loop() {
  const pid_t process = getpid();
  while (!stopping_) {
    const uint32_t pokes = pokes_.load(std::memory_order_acquire);
    const uint64_t wait_ns = work_(context_);
    // If a driver forks here, only this thread exists in the child, and has no work there.
    if (stopping_ || getpid() != process) break;
    sleep(pokes, wait_ns);
  }
}

// If a poke arrived during the work, the word has changed and this does not sleep.
void Registrar::sleep(uint32_t pokes, uint64_t ns) {
  constexpr uint64_t kWatchNs = 1'000'000'000;
  constexpr uint64_t kLongestNs = 1'000'000 * kWatchNs;
  const uint64_t begin = os::now_ns();
  for (uint64_t slept = 0; slept < ns; slept = os::now_ns() - begin) {
    const uint64_t most = main_thread_.is_on() ? kLongestNs : kWatchNs;
    os::wait_while_for(pokes_, pokes, ns - slept < most ? ns - slept : most);
    if (pokes_.load(std::memory_order_acquire) != pokes) return;
    if (!main_thread_.is_on() && os::is_only_ours_left()) exit(0);
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
  main_thread_.stop();
  started_ = false;
}

}  // namespace rdmalloc
