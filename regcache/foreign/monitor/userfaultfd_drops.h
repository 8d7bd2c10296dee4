// Drops of pages that the kernel has reported and that may not have happened yet: for a while
// nothing there is kept. For the thread of the userfaultfd monitor that tells events. Takes no
// locks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>

#include "regcache/foreign/monitor/changes.h"
#include "regcache/foreign/monitor/userfaultfd_kernel.h"

namespace rdmalloc {

class UserfaultfdDrops {
 public:
  // Longer than a thread that was woken is likely to wait to be scheduled.
  static constexpr uint64_t kNs = 100'000'000;

  bool is_any() const { return count_ != 0; }
  void expect(const KernelEvent& event);
  void end_due();

 private:
  struct Drop {
    uint64_t until = 0;  // 0: free
    uintptr_t base = 0;
    uintptr_t end = 0;
    alignas(Change) unsigned char storage[sizeof(Change)] = {};

    Change* change() { return std::launder(reinterpret_cast<Change*>(storage)); }
  };
  static constexpr size_t kMost = 16;

  Drop drops_[kMost] = {};
  size_t count_ = 0;
};

}  // namespace rdmalloc
