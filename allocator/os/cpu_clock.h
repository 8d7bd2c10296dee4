// How long the program has computed, which, unlike the time that passes, does not depend on what
// else runs on the machine. Each call is a system call of a fraction of a microsecond; behind a
// filter of system calls it is the time that passes instead.
#pragma once

#include <cstdint>

namespace rdmalloc::os {

// Nanoseconds of the calling thread.
uint64_t thread_cpu_ns();

// Nanoseconds of all threads. In a child of fork it begins anew.
uint64_t process_cpu_ns();

}  // namespace rdmalloc::os
