// Turns Ctrl-C and similar signals into events to wait for, so that a study first writes what has
// been measured and ends the program's processes.
#pragma once

#include <csignal>

namespace rdmalloc::cli::study {

class Interrupts {
 public:
  // SIGINT, SIGTERM and SIGHUP no longer end this process, nor does SIGPIPE.
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  // The signal that came; it stays set. 0: none.
  int pending();

  // Readable once a signal has come.
  int descriptor() const { return descriptor_; }

  // Called in the child before exec: restores the signals.
  void undo() const;

 private:
  int descriptor_;
  int came_ = 0;
  sigset_t before_{};
  struct sigaction pipe_before_ {};
};

}  // namespace rdmalloc::cli::study
