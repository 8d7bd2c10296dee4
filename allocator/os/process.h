// Processes, identified permanently: a number is reused, a number with a start time is not. Read
// from /proc without malloc, also inside malloc.
#pragma once

#include <cstdint>

#include "allocator/os/file.h"

namespace rdmalloc::os {

struct Process {
  uint64_t number = 0;
  uint64_t start = 0;  // clock ticks after boot

  bool operator==(const Process&) const = default;
};

// Of this process, as it sees it itself.
uint64_t process_number();

// A start of 0: there is no /proc.
Process this_process();

// The start of the process that has this number now. False: there is none that can be seen, or it
// is a zombie.
bool read_start(uint64_t number, uint64_t* start);

// False once its memory is gone or going: a zombie is dead. A process of another user cannot be one
// that this user's processes recorded, and counts as dead.
bool is_alive(const Process& process);

// From the text of /proc/PID/stat. False: malformed, or a zombie's.
bool parse_start(Text stat, uint64_t* start);

// What tells the process numbers here from those of other containers; 0: unknown.
uint64_t process_namespace();

uint64_t effective_user();

// The number of the process that started this one, or of the one that adopted it.
uint64_t parent_number();

// As `uname -n` prints it, cut to `size` bytes; empty where the kernel does not tell.
void machine_name(char* out, size_t size);

}  // namespace rdmalloc::os
