// What the shim does for each call of libibverbs, in its order: look for a region that answers,
// else call libibverbs. Thread-safe; a hit takes no lock and makes no system call. A child of fork
// goes on with what it inherited: the domains of its parent answer no more, and it may open its
// own.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>

#include "regcache/preload/verbs_callers.h"
#include "regcache/preload/verbs_slab.h"

namespace rdmalloc::shim {

struct Request {
  ibv_pd* pd;
  void* address;
  size_t length;
  uint64_t iova;
  unsigned access;
};

// Null with errno, as from libibverbs.
ibv_mr* register_memory(const Call& call, const Request& request);

// Null when the memory region is libibverbs' own.
AnsweredMr* find_answered(const ibv_mr* mr);

// ibv_dereg_mr and ibv_rereg_mr of one that was answered. What `flags` do not name is not looked
// at.
int deregister(AnsweredMr* record);
int reregister(AnsweredMr* record, int flags, const Request& changed);

// ibv_dereg_mr and ibv_rereg_mr of libibverbs' own.
int deregister(ibv_mr* mr);
int reregister_foreign(ibv_mr* mr, int flags, const Request& changed);

// ibv_dealloc_pd, once what was opened for it is closed. With memory regions out the driver says
// whether it may go, as a parent domain may; what was answered goes on being right then.
int deallocate(ibv_pd* pd);

// ibv_get_async_event. A device that reports its end answers no more.
int get_event(ibv_context* context, ibv_async_event* event);

// The same whatever is still out: the protection domain, or the device, is going.
void drop(ibv_pd* pd);
void drop(ibv_context* context);

void before_fork();
void after_fork_in_parent();
void after_fork_in_child();

}  // namespace rdmalloc::shim
