// jemalloc's thread caches: see thread_cache.cpp.
#pragma once

namespace rdmalloc::engine {

// The hooks refused an extent to this thread.
void note_refusal();

// Gives what this thread's cache keeps back to the arenas, and returns jemalloc's data of the
// thread; null if it has no cache. Not from within jemalloc.
void* flush_thread_cache();

}  // namespace rdmalloc::engine
