#include "allocator/tools/top/signals.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>

namespace rdmalloc::cli {
namespace {

volatile sig_atomic_t caught = 0;

constexpr int kEnding[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

void note_signal(int number) { caught = number; }

// While keys keep coming, ppoll() never unblocks signals, so look for pending ones.
void look_for_pending() {
  sigset_t pending;
  sigpending(&pending);
  for (const int number : kEnding) {
    if (sigismember(&pending, number) == 1) caught = number;
  }
}

}  // namespace

TopSignals::TopSignals() {
  sigset_t held;
  sigemptyset(&held);
  for (const int number : kEnding) {
    struct sigaction action = {};
    sigaction(number, nullptr, &action);
    // Whoever started us, for example nohup, wants it ignored.
    if (action.sa_handler == SIG_IGN) continue;
    action = {};
    action.sa_handler = note_signal;
    sigaction(number, &action, nullptr);
    sigaddset(&held, number);
  }
  // Ncurses handles this one. Blocked, so that it is not missed between reading the size and
  // waiting.
  sigaddset(&held, SIGWINCH);
  sigprocmask(SIG_BLOCK, &held, &before_);
}

bool TopSignals::wait(Clock::duration time) const {
  const auto left = std::max(time, Clock::duration::zero());
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
  const timespec limit = {seconds.count(), static_cast<long>((left - seconds).count())};
  pollfd input = {STDIN_FILENO, POLLIN, 0};
  if (ppoll(&input, 1, &limit, &before_) <= 0) return true;
  look_for_pending();
  return (input.revents & (POLLHUP | POLLERR | POLLNVAL)) == 0;
}

bool TopSignals::has_caught() const { return caught != 0; }

void TopSignals::die() const {
  const int number = caught;
  signal(number, SIG_DFL);
  raise(number);
  sigprocmask(SIG_SETMASK, &before_, nullptr);
  _exit(128 + number);
}

}  // namespace rdmalloc::cli
