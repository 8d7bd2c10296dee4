// Sends datagrams to a process of the same user that listens on an abstract socket: its name is in
// no folder and disappears with the process. Such names also serve as claims: only one process at a
// time can have a name. Plain system calls, also in a forked child.
#pragma once

#include "allocator/os/file.h"

namespace rdmalloc::os {

inline constexpr size_t kLongestSocketName = 107;

// Sends the words and a descriptor. False: nobody listens, or the listener does not read for a
// while.
bool announce(Text name, Text words, int descriptor);

// True: this process has the name until it ends or closes the descriptor, which exec does. Also
// true if the kernel does not tell. False: another process has it.
bool claim_name(Text name);

}  // namespace rdmalloc::os
