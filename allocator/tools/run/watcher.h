// Writes reports for processes that cannot: the contents of their counter pages, at intervals, and
// once more when a process has died without a report. The processes announce themselves
// (os/announcement.h), each with its page and the name of its report. The page is mapped here, so
// its last contents are known after a kill.
//
// It is a separate process with one thread. It trusts announcements of the same user's processes
// only.
#pragma once

#include <poll.h>
#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

#include "allocator/os/process.h"
#include "allocator/tools/child.h"
#include "allocator/tools/top/counter_reader.h"

namespace rdmalloc::cli {

class Watcher {
 public:
  // `socket`: where processes announce themselves. `program`: the one that run() outlives, whether
  // it announces itself or not.
  Watcher(int socket, pid_t program, std::chrono::seconds interval);

  // Until the program and all that announced themselves have ended.
  void run();

 private:
  using Clock = std::chrono::steady_clock;

  // Waits for a process's end by a descriptor, if the kernel has such.
  struct Life {
    os::Process process;
    Descriptor descriptor;
    bool has_ended = false;
  };

  struct Watched {
    Life life;
    CounterReader page;
    Descriptor lock;  // a descriptor of the page, opened here
    std::string report;
  };

  static Life look_for(pid_t process);
  static void look_at(Life* life, bool is_told);

  void hear_all();
  bool hear_one();
  void add(pid_t process, const Descriptor& page, std::string report);
  void look_who_ended(const std::vector<pollfd>& polled);
  void write_all();
  bool has_anybody() const;
  int milliseconds_left() const;
  std::vector<pollfd> what_to_poll() const;

  int socket_;
  Life program_;
  std::chrono::seconds most_;
  std::chrono::milliseconds interval_;
  Clock::time_point next_;
  std::vector<Watched> watched_;
};

// Puts a watcher beside the program that is about to be run.
// Names it in the environment. It is neither a child of the program nor in its session, so a signal
// to the program's group does not reach it. Throws Refusal if it cannot be started.
void start_watcher(std::chrono::seconds interval);

}  // namespace rdmalloc::cli
