// Finds who holds pinned memory: this process, according to its own books, and the user's other
// processes, according to the kernel. For the message when needed memory is not available. Not
// inside malloc: reads all of /proc, a few microseconds for each process.
#pragma once

#include <cstddef>
#include <cstdint>

#include "allocator/message.h"
#include "include/rdmalloc/rdmalloc.h"

namespace rdmalloc {

struct Holder {
  uint64_t process = 0;
  uint64_t pinned = 0;  // bytes, VmPin: registrations
  uint64_t locked = 0;  // bytes, VmLck: mlock
  char name[16] = {};
};

// Finds the user's processes, except `self`, that have pinned and locked most, the largest first.
// Returns how many it found, at most `most`. `proc`: the folder /proc.
size_t find_holders(const char* proc, uint64_t user, uint64_t self, Holder* out, size_t most);

// Adds a clause: the limits, what this process has according to `books`, the three largest others,
// and what to do.
void say_who_holds_memory(const rdm_stats& books, Message* out);

}  // namespace rdmalloc
