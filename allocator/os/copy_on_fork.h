// What a fork does to pages that a device has registered. Needs nothing else of this folder, so
// that the shims, which are libraries of their own, may be built with it.
#pragma once

namespace rdmalloc::os {

// A fork copies pinned pages for the child, and so they stay their process's own. Linux does since
// 5.12, and distributions have brought it to older kernels, which tell so to whom asks as
// libibverbs does. Where it is false, the first of parent and child to write to such a page
// gets a copy, and the device keeps the other one. Asked once for the process; not inside malloc,
// any thread, and in a child of fork.
bool copies_pinned_at_fork();

}  // namespace rdmalloc::os
