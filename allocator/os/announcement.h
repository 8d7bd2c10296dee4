// Datagrams to a process of the same user that waits for them at an abstract socket: a name in no
// folder, which goes with its process. Such names also serve as claims: one process has a name at a
// time. Plain system calls, also in a forked child.
#pragma once

#include "allocator/os/file.h"

namespace rdmalloc::os {

inline constexpr size_t kLongestSocketName = 107;

// Sends the words and a descriptor. False: nobody is there, or does not listen for a while.
bool announce(Text name, Text words, int descriptor);

// True: this process has the name from now on, until it ends or the descriptor is closed, which
// exec does; also if that cannot be found out. False: another process has it.
bool claim_name(Text name);

}  // namespace rdmalloc::os
