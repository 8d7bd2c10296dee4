// What a fork does to pages that a device has registered. Needs nothing else of this folder, so
// that the shims, which are separate libraries, can be built with it.
#pragma once

namespace rdmalloc::os {

// True: a fork copies pinned pages for the child, so they stay with their process. Linux does this
// since 5.12; distributions have backported it to older kernels, which report it in the way that
// libibverbs uses. False: the first of parent and child to write to such a page gets a copy, and
// the device keeps the other one. Checked once for the process. Any thread, also in a child of
// fork; not inside malloc.
bool copies_pinned_at_fork();

}  // namespace rdmalloc::os
