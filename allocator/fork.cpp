#include "allocator/fork.h"

#include <pthread.h>

#include "allocator/pages/heap.h"

namespace rdmalloc {

void register_fork_handlers() {
  // The first handler takes the locks that the other two release.
  (void)pthread_atfork([]() NO_THREAD_SAFETY_ANALYSIS { heap.before_fork(); },
                       []() NO_THREAD_SAFETY_ANALYSIS { heap.after_fork_in_parent(); },
                       []() NO_THREAD_SAFETY_ANALYSIS { heap.after_fork_in_child(); });
}

}  // namespace rdmalloc
