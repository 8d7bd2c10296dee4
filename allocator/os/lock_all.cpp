#include "allocator/os/lock_all.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "allocator/os/confinement.h"
#include "allocator/os/file.h"
#include "allocator/os/limits.h"
#include "allocator/os/memory.h"
#include "allocator/os/system_call.h"

namespace rdmalloc::os {
namespace {

// The kernel's own pages: "[vdso]", "[vvar]", "[vsyscall]".
bool is_of_kernel(Text line) { return memmem(line.data, line.size, "[v", 2) != nullptr; }

bool is_accessible(Text line) { return memmem(line.data, line.size, " ---", 4) == nullptr; }

// The mappings to lock. False: /proc cannot be read.
class Wanted {
 public:
  explicit Wanted(FindLeftOut find_left_out) : find_left_out_(find_left_out) {}

  // Calls visit(low, bytes) for each part.
  template <typename Visit>
  bool for_each(Visit visit) {
    counted_ = 0;
    return for_each_line("/proc/self/maps", [&](Text line) {
      uintptr_t low = 0;
      uintptr_t high = 0;
      if (!parse_range(line, &low, &high) || is_of_kernel(line) || !is_accessible(line))
        return true;
      while (low < high) {
        const LeftOut left_out = find(low, high);
        const uintptr_t end = left_out.from < high ? left_out.from : high;
        if (low < end) visit(static_cast<long>(low), end - low);
        if (left_out.from >= high) break;
        const uintptr_t to = left_out.to < high ? left_out.to : high;
        if (left_out.is_counted) counted_ += to - end;
        low = to;
      }
      return true;
    });
  }

  // Bytes that were left out but count as locked.
  size_t counted() const { return counted_; }

 private:
  LeftOut find(uintptr_t low, uintptr_t high) const {
    const LeftOut one = find_left_out_(low, high);
    LeftOut other;
    if (find_metadata(low, &other.from, &other.to) && other.from < one.from) return other;
    return one;
  }

  const FindLeftOut find_left_out_;
  size_t counted_ = 0;
};

long ask_kernel(int flags) { return libc_answer(system_call(SYS_mlockall, flags)); }

}  // namespace

int lock_all(int flags, FindLeftOut find_left_out) {
  constexpr int kKnown = MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT;
  if (is_confined() || (flags & MCL_CURRENT) == 0 || (flags & ~kKnown) != 0) {
    return static_cast<int>(ask_kernel(flags));
  }
  Wanted wanted(find_left_out);
  uint64_t sum = 0;
  if (!wanted.for_each([&](long, size_t bytes) { sum += bytes; })) {
    return static_cast<int>(ask_kernel(flags));
  }
  sum += wanted.counted();
  const LockLimit limit = lock_limit();
  if (sum > limit.effective()) {
    errno = limit.soft == 0 ? EPERM : ENOMEM;
    return -1;
  }
  // The call that the limit may refuse comes first: it shows whether the capability counts here.
  bool is_refused = false;
  (void)wanted.for_each([&](long low, size_t bytes) {
    const long locked = system_call(SYS_mlock2, low, static_cast<long>(bytes), MLOCK_ONFAULT);
    is_refused = is_refused || locked != 0;
  });
  if (is_refused && sum > limit.soft) {
    errno = ENOMEM;
    return -1;
  }
  // Not every page can be populated: guard pages, ends of files. The kernel's mlockall ignores
  // these too.
  if ((flags & MCL_ONFAULT) == 0) {
    (void)wanted.for_each([](long low, size_t bytes) {
      (void)system_call(SYS_mlock, low, static_cast<long>(bytes));
    });
  }
  const int future = flags & ~MCL_CURRENT;
  return (future & MCL_FUTURE) != 0 ? static_cast<int>(ask_kernel(future)) : 0;
}

}  // namespace rdmalloc::os
