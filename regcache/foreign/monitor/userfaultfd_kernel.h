// A userfaultfd descriptor that reports what is unmapped, moved and dropped, but never a fault:
// memory is registered for write-protection and then never protected.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rdmalloc {

// One event from the kernel. kNothing: of no interest.
struct KernelEvent {
  enum Kind : uint8_t { kNothing, kUnmapped, kMoved, kDropping };
  Kind kind = kNothing;
  uintptr_t base = 0;
  uintptr_t end = 0;
  uintptr_t target = 0;  // kMoved: where the range is now
};

// The descriptor belongs to the calling thread's descriptor table; all calls must come from threads
// with that table. Takes no locks and allocates nothing.
class KernelUserfaultfd {
 public:
  // Null, or a sentence that says why not.
  const char* open();
  void close();

  // Once open: a sentence that says what is reported, and by which right.
  const char* what() const;

  // Both apply to the whole range or to nothing. 0, or an errno: EINVAL if some of it cannot be
  // watched, for example files before Linux 6.7.
  int watch(uintptr_t base, size_t length);
  int unwatch(uintptr_t base, size_t length);

  // True from the moment when watched memory is gone until the thread that unmapped it continues,
  // which it does once the event has been read.
  bool is_changing() const;

  // Waits at most that many milliseconds for an event; -1: without limit. False: none came.
  bool wait(int milliseconds) const;
  // Reads events, and so lets the threads that made the changes continue. Returns how many of
  // `events` were filled.
  size_t read(KernelEvent* events, size_t most);

 private:
  enum Right : uint8_t { kAnyProcess, kPrivilege, kDevice };

  int open_descriptor();

  int fd_ = -1;
  Right right_ = kAnyProcess;
  bool has_files_ = false;
};

}  // namespace rdmalloc
