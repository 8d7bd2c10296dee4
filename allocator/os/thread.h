// Threads of our own in somebody else's program.
#pragma once

#include <pthread.h>

#include <cstddef>

namespace rdmalloc::os {

// Starts a thread that blocks all signals: they are the program's, and its handlers may malloc.
// `stack`: bytes, 0 for the program's default, which is also taken where so few are not enough for
// its thread-local data. 0, or an errno. Not inside malloc: pthread_create allocates.
int start_thread(pthread_t* thread, const char* name, size_t stack, void* (*run)(void*),
                 void* context);

}  // namespace rdmalloc::os
