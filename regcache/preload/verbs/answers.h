// What the shim does for each call of libibverbs, in its order: look for a region that answers,
// else call libibverbs. Thread-safe; a hit takes no lock and makes no system call. A child of fork
// continues with what it inherited: its parent's domains no longer answer, and it may open its own.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>

#include "regcache/preload/verbs/callers.h"
#include "regcache/preload/verbs/slab.h"

namespace rdmalloc::shim {

struct Request {
  ibv_pd* pd;
  void* address;
  size_t length;
  uint64_t iova;
  unsigned access;
  bool is_of_ucx = false;  // whose peers may reach the heap: ucx_and_verbs.h
};

// Null with errno, as from libibverbs.
ibv_mr* register_memory(const Call& call, const Request& request);

// Null when the memory region is libibverbs' own.
AnsweredMr* find_answered(const ibv_mr* mr);

// ibv_dereg_mr and ibv_rereg_mr of one that was answered. Parameters that `flags` do not name are
// ignored.
int deregister(AnsweredMr* record);
int reregister(AnsweredMr* record, int flags, const Request& changed);

// ibv_dereg_mr and ibv_rereg_mr of libibverbs' own.
int deregister(ibv_mr* mr);
int reregister_foreign(ibv_mr* mr, int flags, const Request& changed);

// ibv_dealloc_pd, after closing what was opened for the protection domain. If memory regions are
// still registered, the driver decides whether the deallocation is allowed, as it is for a parent
// domain; memory regions that were answered then stay valid.
int deallocate(ibv_pd* pd);

// ibv_get_async_event. Once a device has reported its end, nothing is answered for it.
int get_event(ibv_context* context, ibv_async_event* event);

// The same even if memory regions are still registered: the protection domain, or the device, is
// going.
void drop(ibv_pd* pd);
void drop(ibv_context* context);

void before_fork();
void after_fork_in_parent();
void after_fork_in_child();

}  // namespace rdmalloc::shim
