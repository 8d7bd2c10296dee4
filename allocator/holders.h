// Who holds pinned memory: this process, by its books, and the user's other processes, by what the
// kernel tells of them. Asked when memory that was needed could not be had. Not inside malloc:
// reads all of /proc, a few microseconds for each process.
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

// Those of the processes of a user, but for `self`, that have pinned and locked most, the greatest
// first; how many were found, `most` at most. `proc`: the folder, /proc.
size_t find_holders(const char* proc, uint64_t user, uint64_t self, Holder* out, size_t most);

// A clause: the limits, what this process has by `books`, the three greatest others, and what to
// do.
void say_who_holds_memory(const rdm_stats& books, Message* out);

}  // namespace rdmalloc
