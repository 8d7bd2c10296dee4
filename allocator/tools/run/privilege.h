// Programs that gain rights when they are executed: for these ld.so ignores LD_PRELOAD.
#pragma once

#include <string>

namespace rdmalloc::cli {

// Throws Refusal when the kernel would start this file in secure-execution mode for this caller:
// set-user-id, set-group-id or file capabilities that take effect.
void check_privilege(const std::string& program);

}  // namespace rdmalloc::cli
