// A separate process that takes part in a ledger, driven by commands from this one.
#pragma once

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <string>

#include "allocator/limits/machine_ledger.h"
#include "tests/support/child.h"

namespace rdmalloc::test {

// The name of a ledger that does not exist yet; removed at the end.
class LedgerFile {
 public:
  LedgerFile() {
    char name[] = "/tmp/rdmalloc-ledger-XXXXXX";
    close(mkstemp(name));
    unlink(name);
    path_ = name;
  }
  ~LedgerFile() { unlink(path_.c_str()); }
  LedgerFile(const LedgerFile&) = delete;
  LedgerFile& operator=(const LedgerFile&) = delete;

  const char* path() const { return path_.c_str(); }

 private:
  std::string path_;
};

// Pins nothing: it only reports that it has pinned what it was granted.
class LedgerProcess {
 public:
  LedgerProcess(const char* path, uint64_t cap, uint64_t group = 0) {
    int down[2];
    int up[2];
    if (pipe(down) != 0 || pipe(up) != 0) abort();
    pid_ = fork_bound();
    if (pid_ == 0) serve(path, cap, group, down[0], up[1]);
    close(down[0]);
    close(up[1]);
    commands_ = down[1];
    answers_ = up[0];
  }
  ~LedgerProcess() {
    kill_it();
    bury();
    close(commands_);
    close(answers_);
  }
  LedgerProcess(const LedgerProcess&) = delete;
  LedgerProcess& operator=(const LedgerProcess&) = delete;

  uint64_t ask(uint64_t need, uint64_t want) { return command({need, want}); }
  // Pins this much less.
  void give_back(uint64_t bytes) { (void)command({UINT64_MAX, bytes}); }
  pid_t pid() const { return pid_; }

  // Afterwards it is a zombie.
  void kill_it() const {
    if (pid_ <= 0) return;
    siginfo_t ignored;
    kill(pid_, SIGKILL);
    waitid(P_PID, static_cast<id_t>(pid_), &ignored, WEXITED | WNOWAIT);
  }
  void bury() {
    end_of(pid_);
    pid_ = 0;
  }

 private:
  struct Command {
    uint64_t need;
    uint64_t want;
  };

  uint64_t command(Command one) const {
    uint64_t answer = 0;
    if (write(commands_, &one, sizeof one) != sizeof one) abort();
    if (read(answers_, &answer, sizeof answer) != sizeof answer) abort();
    return answer;
  }

  [[noreturn]] static void serve(const char* path, uint64_t cap, uint64_t group, int commands,
                                 int answers) {
    MachineLedger ledger;
    ledger.boot(path, cap, group);
    uint64_t pinned = 0;
    Command one;
    while (read(commands, &one, sizeof one) == sizeof one) {
      uint64_t answer = 0;
      if (one.need == UINT64_MAX) {
        pinned -= one.want;
        ledger.record_pinned({pinned, pinned});
      } else {
        answer = ledger.ask({pinned, pinned}, one.need, one.want);
        pinned += answer;
      }
      if (write(answers, &answer, sizeof answer) != sizeof answer) break;
    }
    _exit(0);
  }

  pid_t pid_ = 0;
  int commands_ = -1;
  int answers_ = -1;
};

}  // namespace rdmalloc::test
