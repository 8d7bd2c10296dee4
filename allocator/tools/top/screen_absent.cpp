// Used when the build found no ncurses: --watch then prints one table after the other.
#include "allocator/tools/refusal.h"
#include "allocator/tools/top/screen.h"

namespace rdmalloc::cli {

bool has_screen() { return false; }

int show_on_screen(const ProcessFilter&, double) {
  throw Refusal("top: this build has no ncurses (libncurses-dev)");
}

}  // namespace rdmalloc::cli
