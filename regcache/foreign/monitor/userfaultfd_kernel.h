// A userfaultfd descriptor that reports what is unmapped, moved and dropped, but never a fault:
// memory is registered for write-protection and then never protected.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rdmalloc {

// One thing the kernel says. kNothing: of no interest.
struct KernelEvent {
  enum Kind : uint8_t { kNothing, kUnmapped, kMoved, kDropping };
  Kind kind = kNothing;
  uintptr_t base = 0;
  uintptr_t end = 0;
  uintptr_t target = 0;  // kMoved: where the range is now
};

// The descriptor belongs to the calling thread's table of descriptors: all calls from there. No
// locks, nothing is allocated.
class KernelUserfaultfd {
 public:
  // Null, or a sentence that says why not.
  const char* open();
  void close();

  // A sentence, once open: what is told of, by which right.
  const char* what() const;

  // All or nothing of it. 0, or an errno: EINVAL where some of it cannot be watched, as files
  // before Linux 6.7.
  int watch(uintptr_t base, size_t length);
  int unwatch(uintptr_t base, size_t length);

  // Between the moment when watched memory is gone and the one when whoever unmapped it, told by
  // the reading of the event, goes on.
  bool is_changing() const;

  // False: nothing came in so many milliseconds, -1: ever.
  bool wait(int milliseconds) const;
  // Whoever made the changes goes on. Returns how many of `events` there are.
  size_t read(KernelEvent* events, size_t most);

 private:
  enum Right : uint8_t { kAnyProcess, kPrivilege, kDevice };

  int open_descriptor();

  int fd_ = -1;
  Right right_ = kAnyProcess;
  bool has_files_ = false;
};

}  // namespace rdmalloc
