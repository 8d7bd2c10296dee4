#include "allocator/tools/interrupts.h"

#include <sys/signalfd.h>
#include <unistd.h>

namespace rdmalloc::cli {

Interrupts::Interrupts(std::initializer_list<int> signals) {
  sigset_t wanted;
  sigemptyset(&wanted);
  for (const int number : signals) {
    struct sigaction action {};
    sigaction(number, nullptr, &action);
    if (action.sa_handler != SIG_IGN) sigaddset(&wanted, number);
  }
  sigprocmask(SIG_BLOCK, &wanted, &before_);
  descriptor_ = signalfd(-1, &wanted, SFD_NONBLOCK | SFD_CLOEXEC);
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &ignore, &pipe_before_);
}

Interrupts::~Interrupts() {
  close(descriptor_);
  undo();
}

int Interrupts::pending() {
  signalfd_siginfo info{};
  if (came_ == 0 && read(descriptor_, &info, sizeof(info)) == sizeof(info)) {
    came_ = static_cast<int>(info.ssi_signo);
  }
  return came_;
}

void Interrupts::undo() const {
  sigaction(SIGPIPE, &pipe_before_, nullptr);
  sigprocmask(SIG_SETMASK, &before_, nullptr);
}

int die_of(int number) {
  signal(number, SIG_DFL);
  raise(number);
  return 128 + number;
}

}  // namespace rdmalloc::cli
