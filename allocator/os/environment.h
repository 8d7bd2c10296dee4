// The environment as it was at exec, readable before libc has set `environ`: the first malloc of a
// process can come that early.
#pragma once

#include "allocator/os/file.h"

namespace rdmalloc::os {

// Calls visit(Text entry) for each "NAME=value" whose name starts with `prefix`; for none in a
// set-user-ID program. The text stays valid for the call only.
void for_each_environment(const char* prefix, void (*visit)(void* context, Text entry),
                          void* context);

}  // namespace rdmalloc::os
