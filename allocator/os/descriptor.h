// Descriptors that the program does not know of.
#pragma once

namespace rdmalloc::os {

// Moves a descriptor out of the way of programs that rely on the lowest ones: to `number` or the
// next free one, or, if the limit on descriptors is lower, as high as possible; exec closes it.
// Returns the new one; negative: there is none, and the old one is closed.
int move_descriptor(int fd, int number);

}  // namespace rdmalloc::os
