// Processors that tests choose, so that what a thread finds in the caches of freed blocks does not
// depend on the scheduler.
#pragma once

#include <cstdint>

#include "allocator/os/processor.h"
#include "allocator/os/processor_lock.h"

namespace rdmalloc::fake {

// The one that this thread seems to run on.
constinit inline thread_local int32_t processor = 0;

// Until the next heap or cache boots. The kernel knows nothing of them, so nothing is changed by
// restartable sequences.
inline void pretend_processors() {
  os::stop_sequences();
  os::processor_number_at = reinterpret_cast<const char*>(&processor) -
                            static_cast<const char*>(__builtin_thread_pointer());
}

// Back to the real ones.
inline void stop_pretending() { os::find_processor_number(); }

}  // namespace rdmalloc::fake
