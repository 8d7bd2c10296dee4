// madvise() on the heap's own pages. The kernel drops none that are pinned: it refuses
// MADV_DONTNEED and MADV_FREE with EINVAL, where a program that knows other mallocs expects zeroes
// and success. So that these come, and the device's pages stay where they are, the bytes are set to
// zero in place. From any thread, outside malloc.
#pragma once

#include <cstddef>

namespace rdmalloc::interposed {

// Whether an advice that the kernel refused, with EINVAL in errno, is done here: MADV_DONTNEED
// zeroes the pages; MADV_FREE needs nothing, what it says may happen later need not. Both want
// whole pages of one region of the heap that the program may write to. False: nothing was done,
// unless the program took some of the pages' rights away; errno is as it was.
bool follow_advice(void* address, size_t length, int advice);

}  // namespace rdmalloc::interposed
