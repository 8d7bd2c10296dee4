// Signals that would end the process, and keys, waited for together.
#pragma once

#include <signal.h>

#include <chrono>

namespace rdmalloc::cli {

// While it lives, such signals arrive nowhere but where it waits, so that the terminal is put right
// before the process dies by them. One at a time: a handler has nothing but a global to write to.
class TopSignals {
 public:
  using Clock = std::chrono::steady_clock;

  TopSignals();
  TopSignals(const TopSignals&) = delete;
  TopSignals& operator=(const TopSignals&) = delete;

  // Until there is a key, a signal, or the time is up. False: the terminal is gone.
  bool wait(Clock::duration time) const;

  bool has_caught() const;

  // By the signal that was caught, as if there had been no handler: whoever waits for this process
  // sees what ended it.
  [[noreturn]] void die() const;

 private:
  sigset_t before_;
};

}  // namespace rdmalloc::cli
