// A page of this process's memory that its user's other processes can read: a memfd that stays open
// on one descriptor and is found by its name in /proc/PID/fd. It is sealed, so others can neither
// truncate it while it is in use nor write to it. Plain system calls: works inside malloc and in a
// forked child.
#pragma once

#include <cstdint>

#include "allocator/status.h"

namespace rdmalloc::os {

struct SharedPage {
  void* address = nullptr;
  int descriptor = -1;
  uint64_t file = 0;  // tells its descriptor from one that the program put in its place
};

// Makes a page of page_size() zeroes. Its descriptor is `number` or the next free one, or, if the
// limit on descriptors is lower, as high as possible; exec closes it. kRefused: nothing happened.
Status share_page(const char* name, int number, SharedPage* out);

// In the child of a fork: maps a page of the child over its parent's and closes the parent's
// descriptor. kRefused: the parent's page may still be there, and must not be written to.
Status replace_page(const char* name, int number, SharedPage* page);

// The page's descriptor, or -1 if the program has closed it, or opened something else in its place.
int page_descriptor(const SharedPage& page);

// Excludes everybody else who has the page open. False: the lock was not free within that time.
bool lock_page(const SharedPage& page, uint64_t patience_ns);
void unlock_page(const SharedPage& page);

}  // namespace rdmalloc::os
