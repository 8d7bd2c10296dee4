// Standard error as it was when the process started. By the time of a message, descriptor 2 may be
// a database.
#pragma once

#include <cstddef>

namespace rdmalloc::os {

// Remembers what descriptor 2 is. Once, at start.
void remember_standard_error();

// Writes there; does nothing if descriptor 2 has become something else. Raises no SIGPIPE if the
// reader has gone away.
void write_standard_error(const char* data, size_t size);

}  // namespace rdmalloc::os
