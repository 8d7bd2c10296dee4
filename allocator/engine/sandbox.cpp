// RDMALLOC_SANDBOX: when the allocator starts to restrict itself to a handful of system calls
// (os/confinement.h). A program installs a system call filter by prctl or syscall;
// regcache/foreign/monitor wraps syscall, for another reason too.
#include "allocator/os/confinement.h"
#include "allocator/pages/heap.h"

extern "C" {

// As declared in <sys/prctl.h>, but with fixed arguments.
[[gnu::visibility("default")]] int prctl(int option, long a, long b, long c, long d) noexcept;
int prctl(int option, long a, long b, long c, long d) noexcept {
  // Once there is a filter, the heap can no longer read what it needs to start.
  if (rdmalloc::os::installs_filter_by_prctl(option, a)) rdmalloc::start_heap();
  return rdmalloc::os::control_process(option, a, b, c, d);
}

}  // extern "C"

namespace rdmalloc {
namespace {

// After the reservation (reserve.cpp), before the program's constructors.
[[gnu::constructor(102)]] void follow_option() {
  if (!heap.booted()) return;
  const uint64_t choice = heap.options().choice(OptionId::sandbox);
  if (choice == kSandboxOn) os::confine();
  if (choice == kSandboxOff) os::ignore_filters();
}

}  // namespace
}  // namespace rdmalloc
