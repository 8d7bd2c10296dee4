#pragma once

namespace rdmalloc {

// Registers the heap's handlers with pthread_atfork. Must run before jemalloc registers its own:
// handlers that prepare a fork run last registered first, and jemalloc's locks are taken before
// ours everywhere else too (mutex.h). jemalloc's first metadata mapping is the moment.
void register_fork_handlers();

}  // namespace rdmalloc
