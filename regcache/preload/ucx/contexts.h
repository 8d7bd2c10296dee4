// The domains that the shim opened: one for each UCP context that the program has.
#pragma once

#include <pthread.h>
#include <ucp/api/ucp.h>

#include <cstddef>

#include "include/rdmalloc/rdmalloc.h"

namespace rdmalloc::shim {

// Any thread may call, but none that is inside malloc. The lock is held for the table alone, never
// while a domain is opened or closed: UCX may fork there, and may take any time.
class ContextTable {
 public:
  constexpr ContextTable() = default;
  ContextTable(const ContextTable&) = delete;
  ContextTable& operator=(const ContextTable&) = delete;

  // Maps the heap into the context from now on; warns if that is impossible.
  void open(ucp_context_h context);

  // Unmaps it. In a child of fork, only forgets a context of the parent's.
  void close(ucp_context_h context);

  void before_fork() { pthread_mutex_lock(&mutex_); }
  void after_fork() { pthread_mutex_unlock(&mutex_); }

 private:
  struct Entry {
    ucp_context_h context = nullptr;  // null: not in use
    rdm_domain* domain = nullptr;
  };
  // Programs have one or two; Open MPI one for each of its components that speak UCX.
  static constexpr size_t kEntries = 64;

  bool add(const Entry& entry);
  rdm_domain* take(ucp_context_h context);

  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
  Entry entries_[kEntries];
};

}  // namespace rdmalloc::shim
