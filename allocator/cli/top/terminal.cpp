// Apart from the screen, for term.h defines common words as macros.
#include <unistd.h>
// In this order.
#include <curses.h>
#include <term.h>

#include "allocator/cli/top/screen.h"

namespace rdmalloc::cli {

// setupterm() here, because newterm() prints of its own where it fails.
bool has_screen() {
  if (isatty(STDIN_FILENO) == 0 || isatty(STDOUT_FILENO) == 0) return false;
  int error = 0;
  if (setupterm(nullptr, STDOUT_FILENO, &error) != OK) return false;
  const bool can_move = cursor_address != nullptr;
  del_curterm(cur_term);
  return can_move;
}

}  // namespace rdmalloc::cli
