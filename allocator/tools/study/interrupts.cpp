#include "allocator/tools/study/interrupts.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <initializer_list>

namespace rdmalloc::cli::study {

Interrupts::Interrupts() {
  sigset_t wanted;
  sigemptyset(&wanted);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&wanted, signal);
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

}  // namespace rdmalloc::cli::study
