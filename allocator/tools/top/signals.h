// Signals that would end the process, and keys, waited for together.
#pragma once

#include <signal.h>

#include <chrono>

namespace rdmalloc::cli {

// While an object lives, such signals arrive only where it waits, so that the terminal is restored
// before the process dies by them. One at a time, because a handler can only write to a global.
class TopSignals {
 public:
  using Clock = std::chrono::steady_clock;

  TopSignals();
  TopSignals(const TopSignals&) = delete;
  TopSignals& operator=(const TopSignals&) = delete;

  // Until there is a key, a signal, or the time is up. False: the terminal is gone.
  bool wait(Clock::duration time) const;

  bool has_caught() const;

  // Ends this process by the signal that was caught, as if there had been no handler, so that its
  // parent sees what ended it.
  [[noreturn]] void die() const;

 private:
  sigset_t before_;
};

}  // namespace rdmalloc::cli
