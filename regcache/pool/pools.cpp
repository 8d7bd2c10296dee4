#include "regcache/pool/pools.h"

#include "allocator/os/process_barrier.h"
#include "allocator/os/thread.h"
#include "regcache/pool/pool_memory.h"
#include "regcache/posix_lock.h"

namespace rdmalloc {

// Under the lock.
bool Pools::start() {
  if (started_) return true;
  several_nodes_ = os::has_several_nodes();
  started_ = chunks_.set_up() && stocks_.set_up();
  return started_;
}

int Pools::create(const PoolSettings& settings, Pool** out, Message* why) {
  const os::NoCancel no_cancel;
  if (settings.domain != nullptr && !memory_->hold(settings.domain)) {
    why->add("the domain is closed, or is of the parent process");
    return RDM_INVALID;
  }
  const int status = create_held(settings, out, why);
  if (status != RDM_OK && settings.domain != nullptr) memory_->let_go(settings.domain);
  return status;
}

// In a domain that the caller holds; the pool lets go of it when it is closed.
int Pools::create_held(const PoolSettings& settings, Pool** out, Message* why) {
  Pool* pool = nullptr;
  {
    PosixLock hold(&mutex_);
    if (!start()) {
      why->add("no address space for the pools' books, or no window to take memory from");
      return RDM_SYSTEM;
    }
    if (fenced_) fenced_ = !os::enable_process_barrier();
    const size_t number = list_.find_free();
    if (number != PoolList::kMost) {
      pool = list_.make(number, *this, static_cast<uint32_t>(number));
    }
    if (pool == nullptr) {
      why->add("too many pools are open, or there is no memory for another's books: close one");
      return RDM_UNSUPPORTED;
    }
    pool->take_for_use();
  }
  const int status = pool->create(settings, why);
  if (status == RDM_OK) *out = pool;
  return status;
}

void Pools::after_fork_in_child() {
  mutex_ = PTHREAD_MUTEX_INITIALIZER;
  fenced_ = true;
  list_.note_fork_child();
}

}  // namespace rdmalloc
