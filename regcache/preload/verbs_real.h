// libibverbs itself, behind the functions that the shim interposes.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>

namespace rdmalloc::shim {

struct RealVerbs {
  ibv_mr* (*reg_mr)(ibv_pd*, void*, size_t, int) = nullptr;
  ibv_mr* (*reg_mr_iova)(ibv_pd*, void*, size_t, uint64_t, int) = nullptr;        // may be null
  ibv_mr* (*reg_mr_iova2)(ibv_pd*, void*, size_t, uint64_t, unsigned) = nullptr;  // may be null
  int (*rereg_mr)(ibv_mr*, int, ibv_pd*, void*, size_t, int) = nullptr;
  int (*dereg_mr)(ibv_mr*) = nullptr;
  int (*dealloc_pd)(ibv_pd*) = nullptr;
  int (*close_device)(ibv_context*) = nullptr;
  int (*get_async_event)(ibv_context*, ibv_async_event*) = nullptr;  // may be null
  void (*unimport_pd)(ibv_pd*) = nullptr;                            // may be null
  ibv_fork_status (*is_fork_initialized)() = nullptr;                // may be null

  // Registers through the last of the three that exists: ibv_reg_mr itself calls ibv_reg_mr_iova2
  // by name, which would come back to the shim.
  ibv_mr* register_memory(ibv_pd* pd, void* address, size_t length, uint64_t iova,
                          unsigned access) const;
};

// Found at the first call, which somebody with a protection domain makes, so that programs without
// one do not load libibverbs. Null, with errno ENOSYS, when there is none. Thread-safe.
const RealVerbs* real_verbs();

}  // namespace rdmalloc::shim
