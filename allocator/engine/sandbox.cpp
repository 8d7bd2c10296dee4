// RDMALLOC_SANDBOX: from when on the allocator makes but a handful of system calls
// (os/confinement.h). A program that installs a filter of system calls does so by prctl or syscall;
// syscall is heard by regcache/monitor, which has it for another reason.
#include <stdlib.h>

#include "allocator/os/confinement.h"
#include "allocator/pages/heap.h"

extern "C" {

// Of <sys/prctl.h>, where it takes what it is given.
[[gnu::visibility("default")]] int prctl(int option, long a, long b, long c, long d) noexcept;
int prctl(int option, long a, long b, long c, long d) noexcept {
  return rdmalloc::os::control_process(option, a, b, c, d);
}

}  // extern "C"

namespace rdmalloc {
namespace {

// After what is reserved (reserve.cpp), before constructors of the program.
[[gnu::constructor(102)]] void follow_option() {
  if (!heap.booted()) free(malloc(1));
  const uint64_t choice = heap.options().choice(OptionId::sandbox);
  if (choice == kSandboxOn) os::confine();
  if (choice == kSandboxOff) os::ignore_filters();
}

}  // namespace
}  // namespace rdmalloc
