#include "allocator/fork.h"

#include <pthread.h>

#include "allocator/pages/heap.h"

namespace rdmalloc {

void register_fork_handlers() {
  (void)pthread_atfork([] { heap.before_fork(); }, [] { heap.after_fork_in_parent(); },
                       [] { heap.after_fork_in_child(); });
}

}  // namespace rdmalloc
