// mlockall(MCL_CURRENT), done range by range: the kernel's own call counts what is only reserved.
// With a window of a terabyte it would fail under any limit, and without a limit count a terabyte
// as locked for ever.
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

// The first such part of [from, to), which lies in one mapping that may be accessed; without one it
// begins at `to` or above.
using FindLeftOut = LeftOut (*)(uintptr_t from, uintptr_t to);

// As libc's mlockall, errno included, but that mappings without any right (what is reserved, guard
// pages) are neither counted nor locked, and what map_metadata() gave neither.
int lock_all(int flags, FindLeftOut find_left_out);

}  // namespace rdmalloc::os
