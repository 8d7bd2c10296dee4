#pragma once

namespace rdmalloc {

// Registers the heap's handlers with pthread_atfork. Must run before jemalloc registers its own:
// prepare handlers run in reverse order of registration, and everywhere else jemalloc's locks are
// taken before ours, too (mutex.h). The right moment is jemalloc's first metadata mapping.
void register_fork_handlers();

}  // namespace rdmalloc
