// A monitor: how the process learns that foreign memory changes. There are three, one file each.
// One is in force. It is chosen when foreign memory is first to be kept registered, and never
// changes.
//
//   userfaultfd   the kernel reports every change, whoever makes it, to a thread of ours
//   interposed    the program's and its libraries' calls of munmap, mremap, madvise, brk, ... come
//                 through functions of ours; system calls made otherwise are not seen
//   none          nothing is seen, so nothing is kept
//
// The interposed functions exist in any case, and tell `changes`; userfaultfd adds what they miss.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rdmalloc {

class Monitor {
 public:
  // Its name: a static word.
  virtual const char* name() const noexcept = 0;

  // A static sentence: how well it watches now, and why. It may get worse later.
  virtual const char* why() const noexcept = 0;

  // To be called before watch(), by a thread that holds nothing that others wait for: it may call
  // the dynamic linker, whose lock is held while constructors of loaded objects run. False: it is
  // not known now whether changes are seen, so nothing may be watched.
  virtual bool look() noexcept { return true; }

  // True: from now on every change of [base, base + length) is reported to `changes` before the
  // call that makes it returns, or that call is held up. False: this memory cannot be watched. Any
  // thread, without locks, never inside malloc. The memory may be watched already.
  virtual bool watch(uintptr_t base, size_t length) noexcept = 0;

  // The range is no longer registered. What the sink of `changes` still has cached stays watched.
  virtual void unwatch(uintptr_t base, size_t length) noexcept = 0;

  // In a child of fork, inside malloc: nothing is watched.
  virtual void note_fork_child() noexcept = 0;

 protected:
  ~Monitor() = default;
};

// Returns the monitor in force, and starts it at the first call. `why` (unless null) becomes the
// sentence that says why it is this one. Never inside malloc, and under the conditions of look().
// While another thread is starting it, none is in force. `wish`: the value of RDMALLOC_MONITOR.
enum class MonitorWish : uint8_t { kAuto, kUserfaultfd, kInterposed, kNone };
Monitor& monitor_in_force(MonitorWish wish, const char** why);

// The same for callers that may not start one: none is in force before the first call of the other.
Monitor& monitor_started();

// In the child of a fork, inside malloc.
void note_fork_child_of_monitors();

// The three monitors. They return null and a sentence if they are not available.
Monitor* start_userfaultfd_monitor(const char** why);
Monitor* start_interposed_monitor(const char** why);
Monitor& no_monitor();

}  // namespace rdmalloc
