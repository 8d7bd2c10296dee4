// libibverbs itself, found at run time: what the backend calls, and what is behind the functions
// that the shim interposes. A program without a protection domain does not pay for loading it.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>

namespace rdmalloc {

// libibverbs' ibv_fork_status, which headers before rdma-core 35 lack.
enum class ForkStatus : int { kDisabled, kEnabled, kUnneeded };

// Tests substitute others.
struct VerbsLibrary {
  ibv_mr* (*reg_mr)(ibv_pd*, void*, size_t, int) = nullptr;
  ibv_mr* (*reg_mr_iova)(ibv_pd*, void*, size_t, uint64_t, int) = nullptr;        // may be null
  ibv_mr* (*reg_mr_iova2)(ibv_pd*, void*, size_t, uint64_t, unsigned) = nullptr;  // may be null
  int (*rereg_mr)(ibv_mr*, int, ibv_pd*, void*, size_t, int) = nullptr;
  int (*dereg_mr)(ibv_mr*) = nullptr;
  int (*query_device)(ibv_context*, ibv_device_attr*) = nullptr;
  int (*dealloc_pd)(ibv_pd*) = nullptr;
  int (*close_device)(ibv_context*) = nullptr;
  int (*get_async_event)(ibv_context*, ibv_async_event*) = nullptr;  // may be null
  void (*unimport_pd)(ibv_pd*) = nullptr;                            // may be null
  ForkStatus (*is_fork_initialized)() = nullptr;                     // null before rdma-core 35
  bool kernel_copies_at_fork = true;  // what is pinned: see os/copy_on_fork.h

  // As the program asked, through the last of the three that exists: ibv_reg_mr itself calls
  // ibv_reg_mr_iova2 by name, which would come back to the shim. Null with errno.
  ibv_mr* register_memory(ibv_pd* pd, void* address, size_t length, uint64_t iova,
                          unsigned access) const;
};

// Finds libibverbs at the first call: the one that the program has loaded, otherwise the system's.
// Null, and `*missing` is a sentence, if there is none. Thread-safe.
const VerbsLibrary* find_verbs_library(const char** missing);

}  // namespace rdmalloc
