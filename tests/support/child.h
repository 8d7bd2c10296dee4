// Child processes for tests: runs work in its own process and reports how that process ended.
// Nothing here allocates or needs Catch, so programs that run under the library can use it too.
#pragma once

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>
#include <type_traits>

namespace rdmalloc::test {

// How a child ended. It has already been waited for.
class ChildEnd {
 public:
  static constexpr int kNoChild = -1;    // fork() failed
  static constexpr int kOfSignal = 128;  // added to the signal number, as shells do

  static ChildEnd of(int wait_status) {
    if (WIFSIGNALED(wait_status)) return ChildEnd(kOfSignal + WTERMSIG(wait_status));
    return ChildEnd(WEXITSTATUS(wait_status));
  }
  static ChildEnd none() { return ChildEnd(kNoChild); }

  bool exited_well() const { return status_ == 0; }
  // The exit status; for a killed child, kOfSignal plus the signal.
  int status() const { return status_; }
  // The signal that killed it, or 0.
  int signal() const { return status_ > kOfSignal ? status_ - kOfSignal : 0; }
  // Reads on from the child's name: "exited with 1", "was killed: Segmentation fault".
  const char* sentence() const { return sentence_; }

 private:
  explicit ChildEnd(int status) : status_(status) {
    if (status == kNoChild) {
      snprintf(sentence_, sizeof sentence_, "could not be started");
    } else if (signal() != 0) {
      snprintf(sentence_, sizeof sentence_, "was killed: %s", strsignal(signal()));
    } else {
      snprintf(sentence_, sizeof sentence_, "exited with %d", status);
    }
  }

  int status_;
  char sentence_[64];
};

// Waits until the child has ended. A pid below 1 counts as no child.
inline ChildEnd end_of(pid_t child) {
  int wait_status = 0;
  pid_t ended = -1;
  do {
    if (child > 0) ended = waitpid(child, &wait_status, 0);
  } while (ended < 0 && child > 0 && errno == EINTR);
  return ended == child && child > 0 ? ChildEnd::of(wait_status) : ChildEnd::none();
}

// Nothing if it is still running.
inline std::optional<ChildEnd> end_within(pid_t child, unsigned milliseconds) {
  for (unsigned passed = 0;; ++passed) {
    int wait_status = 0;
    if (waitpid(child, &wait_status, WNOHANG) == child) return ChildEnd::of(wait_status);
    if (passed == milliseconds) return std::nullopt;
    usleep(1000);
  }
}

inline ChildEnd kill_child(pid_t child) {
  if (child > 0) kill(child, SIGKILL);
  return end_of(child);
}

// Ends this process without exit handlers, including those that a sanitizer adds to _exit: they
// would report what the parent's threads hold.
[[noreturn]] inline void leave(int status) {
  syscall(SYS_exit_group, status);
  __builtin_unreachable();
}

// fork(), but the child is killed when the thread that started it ends.
inline pid_t fork_bound() {
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child != 0) return child;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) leave(1);
  return 0;
}

// A child that runs longer is killed by SIGALRM.
inline constexpr unsigned kChildSeconds = 200;

// Runs the work in a child. What it returns decides the exit status: void and true are success, an
// int is the status itself.
template <typename Work>
[[nodiscard]] pid_t start_child(Work work) {
  using Answer = std::invoke_result_t<Work>;
  const pid_t child = fork();
  if (child != 0) return child;
  alarm(kChildSeconds);
  if constexpr (std::is_same_v<Answer, bool>) {
    leave(work() ? 0 : 1);
  } else if constexpr (std::is_same_v<Answer, int>) {
    leave(work());
  } else {
    static_assert(std::is_void_v<Answer>);
    work();
    leave(0);
  }
}

template <typename Work>
[[nodiscard]] ChildEnd run_child(Work work) {
  return end_of(start_child(work));
}

// Whether the work crashes or fails an assertion. Crash reports are silenced, since the crash is
// expected.
template <typename Work>
[[nodiscard]] bool crashes(Work work) {
  constexpr int kCrashes[] = {SIGABRT, SIGBUS, SIGILL, SIGSEGV, SIGTRAP};
  const ChildEnd end = run_child([&] {
    for (const int crash : kCrashes) signal(crash, SIG_DFL);
    work();
  });
  for (const int crash : kCrashes) {
    if (end.signal() == crash) return true;
  }
  return false;
}

}  // namespace rdmalloc::test
