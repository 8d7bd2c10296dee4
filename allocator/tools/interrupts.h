// Turns Ctrl-C and similar signals into events to wait for, so that a command can first put things
// in order: write what has been measured, restore the terminal.
#pragma once

#include <csignal>
#include <initializer_list>

namespace rdmalloc::cli {

class Interrupts {
 public:
  // These no longer end this process, nor does SIGPIPE. Those that are ignored, as by nohup, stay
  // so.
  explicit Interrupts(std::initializer_list<int> signals);
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  // The signal that came; it stays set. 0: none.
  int pending();

  // Readable once a signal has come.
  int descriptor() const { return descriptor_; }

  // Restores the signals; also called in a child before exec.
  void undo() const;

 private:
  int descriptor_;
  int came_ = 0;
  sigset_t before_{};
  struct sigaction pipe_before_ {};
};

// Ends this process by the signal, as if it had not been waited for, so that its parent sees what
// ended it. Returns the status that a shell would say where the signal does not end it.
int die_of(int signal);

}  // namespace rdmalloc::cli
