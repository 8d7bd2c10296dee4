// mlockall(MCL_CURRENT), done range by range, because the kernel's own call counts memory that is
// only reserved: with a window of a terabyte it would fail under any limit, and without a limit it
// would count a terabyte as locked forever.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rdmalloc::os {

// Part of a mapping that need not be locked, because there is nothing in it.
struct LeftOut {
  uintptr_t from = UINTPTR_MAX;
  uintptr_t to = UINTPTR_MAX;
  bool is_counted = false;  // it is locked, and counts as such
};

// Returns the first such part of [from, to), a range within one accessible mapping; if there is
// none, one that begins at `to` or above.
using FindLeftOut = LeftOut (*)(uintptr_t from, uintptr_t to);

// Like libc's mlockall, errno included, except that it neither counts nor locks inaccessible
// mappings (reservations, guard pages) or what map_metadata() returned.
int lock_all(int flags, FindLeftOut find_left_out);

}  // namespace rdmalloc::os
