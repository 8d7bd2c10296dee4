#include "allocator/os/cpu_clock.h"

#include "allocator/os/clock.h"
#include "allocator/os/confinement.h"

namespace rdmalloc::os {
namespace {

uint64_t cpu_clock_ns(clockid_t clock) { return is_confined() ? now_ns() : read_clock_ns(clock); }

}  // namespace

uint64_t thread_cpu_ns() { return cpu_clock_ns(CLOCK_THREAD_CPUTIME_ID); }

uint64_t process_cpu_ns() { return cpu_clock_ns(CLOCK_PROCESS_CPUTIME_ID); }

}  // namespace rdmalloc::os
