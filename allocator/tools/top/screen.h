// `rdmalloc top --watch` on a terminal's whole screen.
#pragma once

#include "allocator/tools/top/machine_processes.h"

namespace rdmalloc::cli {

// False: standard input or output is no terminal, or one whose cursor cannot be moved, or this
// build has no ncurses.
bool has_screen();

// Until q is pressed, the terminal is gone, or a signal ends it, by which the process then dies.
// Leaves the terminal as it was.
int show_on_screen(const ProcessFilter& filter, double seconds);

}  // namespace rdmalloc::cli
