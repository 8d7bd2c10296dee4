// A page of this process's memory that its user's other processes can read: a memfd that stays open
// on one descriptor and is found by its name in /proc/PID/fd. Sealed, so that it cannot be cut
// short under anybody's feet, or be written to by others. Plain system calls: works inside malloc
// and in a forked child.
#pragma once

#include <cstdint>

#include "allocator/status.h"

namespace rdmalloc::os {

struct SharedPage {
  void* address = nullptr;
  int descriptor = -1;
  uint64_t file = 0;  // tells its descriptor from one that the program put in its place
};

// Of page_size() zeroes. The descriptor is `number` or the next one free, or, where the limit on
// descriptors is lower than that, as high as it can be; closed by exec. kRefused: nothing happened.
Status share_page(const char* name, int number, SharedPage* out);

// In the child of a fork: a page of the child's own where its parent's is mapped, whose descriptor
// is closed. kRefused: the parent's page may still be there, and must not be written to.
Status replace_page(const char* name, int number, SharedPage* page);

// The page's descriptor, or -1 if the program has closed it, or opened something else in its place.
int page_descriptor(const SharedPage& page);

// Excludes everybody else who has the page open. False: the lock was not free within that time.
bool lock_page(const SharedPage& page, uint64_t patience_ns);
void unlock_page(const SharedPage& page);

}  // namespace rdmalloc::os
