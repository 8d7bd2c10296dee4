// Keeps threads alive that start when memory has run out: see thread_cache.cpp.
#pragma once

namespace rdmalloc::engine {

// The hooks refused an extent to this thread.
void note_refusal();

}  // namespace rdmalloc::engine
