// File names that differ by process: expands the letters that a user writes after percent signs.
// Works inside malloc.
//
//   %p  the process id                 %r  its rank, else the process id
//   %j  the job, else the process id   %h  the machine's name      %%  a percent sign
#pragma once

#include <cstddef>

#include "allocator/limits/launcher.h"
#include "allocator/os/file.h"

namespace rdmalloc {

inline constexpr char kFileNameLetters[] = "prjh%";
inline constexpr char kFileNameHelp[] =
    "%p, %r, %j, %h and %% may be in a file name; no other letter after a percent sign";

// Each percent sign is followed by one of these letters.
bool is_file_name(os::Text pattern);

// True when the names of a job's processes differ by their own numbers.
bool names_process(const char* pattern);

// Expands the pattern for the calling process. False: it does not fit, and out is cut.
[[nodiscard]] bool expand_file_name(const char* pattern, const Place& place, char* out,
                                    size_t size);

}  // namespace rdmalloc
