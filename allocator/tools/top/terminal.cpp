// Separate from the screen, because term.h defines common words as macros.
#include <unistd.h>
// The order matters.
#include <curses.h>
#include <term.h>

#include "allocator/tools/top/screen.h"

namespace rdmalloc::cli {

// Uses setupterm(), because newterm() prints messages of its own when it fails.
bool has_screen() {
  if (isatty(STDIN_FILENO) == 0 || isatty(STDOUT_FILENO) == 0) return false;
  int error = 0;
  if (setupterm(nullptr, STDOUT_FILENO, &error) != OK) return false;
  const bool can_move = cursor_address != nullptr;
  del_curterm(cur_term);
  return can_move;
}

}  // namespace rdmalloc::cli
