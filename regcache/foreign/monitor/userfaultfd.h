// The userfaultfd monitor: the kernel reports changes, whoever makes them and however, and blocks a
// thread that unmaps until the event is read.
//
// The descriptor lives in a descriptor table of its own, so that the program cannot close it and no
// child inherits it. Two threads of ours have that table: the keeper makes the calls about ranges,
// one after the other, and the reader reads events. A third one, the teller, reports them to
// `changes`: it has the program's descriptors, because devices are among these. `changes` is held
// up from before the read, which lets the threads that made the changes continue, until everything
// is reported. So a hit finds the registration gone, or looks again.
//
// The kernel frees the addresses before it reports. Another thread may map there at once, and must
// not find the old registration. So the interposed calls that map memory wait (Changes::catch_up)
// until the kernel says that no change is in progress, if they mapped where something is
// registered. One hole remains: a thread that maps by a system call past every interposed function
// (as dlopen does, inside libc), at an address that another thread is freeing, also by a call past
// them, and that gets the address before that call returns.
//
// Dropping pages is reported before it happens. If the call does not come through the interposed
// functions, registering the range again before the drop would keep what is going to be dropped: so
// for a while nothing there is kept. Not reported at all: shmdt(), remap_file_pages() and guard
// pages, which the interposed functions see; and truncated or punched files, which nothing sees.
//
// The watched part of a mapping is a mapping of its own to the kernel, which refuses to move
// several at a time: mremap fails with EFAULT if it cannot merge them again. The interposed mremap
// releases the range first; after that the failure is rare (once in some ten thousand random calls,
// and under Linux 6.1 once in some two hundred).
//
// These threads must never unmap what is watched: they would wait for themselves.
#pragma once

#include <cstddef>
#include <cstdint>

#include "regcache/foreign/monitor/changes.h"
#include "regcache/foreign/monitor/monitor.h"
#include "regcache/foreign/monitor/userfaultfd_events.h"
#include "regcache/foreign/monitor/userfaultfd_keeper.h"

namespace rdmalloc {

class UserfaultfdMonitor final : public Monitor, public LateMonitor {
 public:
  // Null, or a sentence that says why not.
  const char* start();

  const char* name() const noexcept override { return "userfaultfd"; }
  const char* why() const noexcept override;
  bool watch(uintptr_t base, size_t length) noexcept override;
  void unwatch(uintptr_t base, size_t length) noexcept override;
  void note_fork_child() noexcept override;

  void wait_until_told() noexcept override;
  void catch_up() noexcept override;
  void let_go(uintptr_t base, size_t length) noexcept override;

  // For tests: events read since the start.
  uint32_t events() const { return events_.count(); }

 private:
  UserfaultfdWatched watched_;
  UserfaultfdRequests requests_;
  KernelUserfaultfd kernel_;  // the threads'
  UserfaultfdEvents events_{kernel_, requests_, watched_};
  UserfaultfdKeeper keeper_{kernel_, requests_, watched_, events_};
};

}  // namespace rdmalloc
