// Descriptors that the program does not know of.
#pragma once

namespace rdmalloc::os {

// Puts a descriptor out of the way of programs that count on the lowest ones: to `number` or the
// next one free, or, where the limit on descriptors is lower than that, as high as it can be;
// closed by exec. The one that it has now; negative: there is none, and the old one is closed.
int move_descriptor(int fd, int number);

}  // namespace rdmalloc::os
