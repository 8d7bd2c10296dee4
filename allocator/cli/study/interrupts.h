// Ctrl-C and its like as something to wait for, instead of an end in the middle of everything: what
// has been measured is written, and the program's processes are ended, first.
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

  // The signal that came, and stays; 0: none.
  int pending();

  // Readable once one has come.
  int descriptor() const { return descriptor_; }

  // In the child, before exec: signals are as they were before there was this.
  void undo() const;

 private:
  int descriptor_;
  int came_ = 0;
  sigset_t before_{};
  struct sigaction pipe_before_ {};
};

}  // namespace rdmalloc::cli::study
