// Records what each thread is doing; a watchdog thread checks that all make progress. If one does
// not, it reports on each and ends the process by SIGABRT.
#pragma once

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

namespace probe {

class Watchdog {
 public:
  // What one thread is doing. A thread counts as alive while it keeps reporting something new.
  class Doing {
   public:
    void say(const char* what) {
      what_.store(what, std::memory_order_relaxed);
      steps_.fetch_add(1, std::memory_order_relaxed);
    }
    void end() { is_over_ = true; }

   private:
    friend class Watchdog;
    const char* who_ = nullptr;
    std::atomic<const char*> what_{"nothing yet"};
    std::atomic<uint64_t> steps_{0};
    std::atomic<bool> is_over_{false};
    uint64_t seen_ = 0;
    unsigned quiet_s_ = 0;
  };

  Watchdog(unsigned patience_s, uint64_t seed) : patience_s_(patience_s), seed_(seed) {}

  // Before start(); at most kMost.
  Doing& add(const char* who) {
    Doing& doing = all_[count_++];
    doing.who_ = who;
    return doing;
  }
  void start() {
    pthread_t thread{};
    pthread_create(
        &thread, nullptr,
        [](void* self) -> void* {
          static_cast<Watchdog*>(self)->watch();
          return nullptr;
        },
        this);
    pthread_detach(thread);
  }

 private:
  static constexpr size_t kMost = 16;

  [[noreturn]] void watch() {
    for (;;) {
      sleep(1);
      for (size_t i = 0; i < count_; ++i) {
        Doing& doing = all_[i];
        const uint64_t steps = doing.steps_;
        doing.quiet_s_ = steps != doing.seen_ || doing.is_over_ ? 0 : doing.quiet_s_ + 1;
        doing.seen_ = steps;
        if (doing.quiet_s_ >= patience_s_) give_up();
      }
    }
  }
  // No malloc and no stdio: a hanging thread may hold their locks.
  [[noreturn]] void give_up() {
    for (size_t i = 0; i < count_; ++i) {
      const Doing& doing = all_[i];
      if (doing.is_over_) continue;
      char line[256];
      const int length = snprintf(line, sizeof line, "seed %lu: %s %s, for %u s: %s\n", seed_,
                                  doing.who_, doing.quiet_s_ >= patience_s_ ? "hangs" : "goes on",
                                  doing.quiet_s_, doing.what_.load());
      (void)!write(STDERR_FILENO, line, static_cast<size_t>(length));
    }
    abort();
  }

  const unsigned patience_s_;
  const uint64_t seed_;
  size_t count_ = 0;
  Doing all_[kMost];
};

}  // namespace probe
