// A monitor: how the process learns that foreign memory changes. There are three, a leaf file each;
// one is in force, chosen when foreign memory is first to be kept registered, for good.
//
//   userfaultfd   the kernel tells of every change, whoever makes it; a thread of ours reads
//   interposed    the program's and its libraries' calls of munmap, mremap, madvise, brk, ... come
//                 through functions of ours; system calls made otherwise are not seen
//   none          nothing is seen, so nothing is kept
//
// The interposed functions are there in any case, and tell `changes`; userfaultfd adds what they
// miss.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rdmalloc {

class Monitor {
 public:
  // A word, static.
  virtual const char* name() const noexcept = 0;

  // How well it watches now and why, a sentence, static. It may say worse later.
  virtual const char* why() const noexcept = 0;

  // Before watch(), by a thread that holds nothing that others wait for: it may call the dynamic
  // linker, whose lock is held while constructors of loaded objects run. False: it cannot be told
  // now whether changes are heard of, so nothing is to be watched.
  virtual bool look() noexcept { return true; }

  // True: from now on every change of [base, base + length) is told to `changes`: before the call
  // that makes it returns, or held up. False: this memory cannot be watched. By any thread, without
  // locks, never inside malloc. May be called for memory that is watched.
  virtual bool watch(uintptr_t base, size_t length) noexcept = 0;

  // It is registered no more. What the sink of `changes` still has cached stays watched.
  virtual void unwatch(uintptr_t base, size_t length) noexcept = 0;

  // In the child of a fork, inside malloc: nothing is watched.
  virtual void note_fork_child() noexcept = 0;

 protected:
  ~Monitor() = default;
};

// The one in force, started by the first call; `why` (unless null) becomes the sentence that says
// why it is this one. Never inside malloc, and under the conditions of look(). While another thread
// is starting it, none is in force. `wish`: what RDMALLOC_MONITOR says.
enum class MonitorWish : uint8_t { kAuto, kUserfaultfd, kInterposed, kNone };
Monitor& monitor_in_force(MonitorWish wish, const char** why);

// The same for who may start none: none is in force before the first call of the other.
Monitor& monitor_started();

// In the child of a fork, inside malloc.
void note_fork_child_of_monitors();

// The leaves. They return null and a sentence where they cannot be had.
Monitor* start_userfaultfd_monitor(const char** why);
Monitor* start_interposed_monitor(const char** why);
Monitor& no_monitor();

}  // namespace rdmalloc
