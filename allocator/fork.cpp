#include "allocator/fork.h"

#include <pthread.h>

#include "allocator/pages/heap_fork.h"

namespace rdmalloc {

void register_fork_handlers() {
  // The first handler takes the locks that the other two release.
  (void)pthread_atfork([]() NO_THREAD_SAFETY_ANALYSIS { before_fork(heap); },
                       []() NO_THREAD_SAFETY_ANALYSIS { after_fork_in_parent(heap); },
                       []() NO_THREAD_SAFETY_ANALYSIS { after_fork_in_child(heap); });
}

}  // namespace rdmalloc
