// What the program asked UCX to map, as it asked.
//
// UCX answers a mapping of memory that lies in a mapped region with the region's own handle, and up
// to 1.14 a query of that handle returns the region's address and length. MPICH queries right after
// it maps a window, and takes the answer for the window's address: MPI_Put would then write to
// unrelated memory.
#pragma once

#include <pthread.h>
#include <ucp/api/ucp.h>

#include <cstddef>
#include <cstdint>

namespace rdmalloc::shim {

// Any thread may call, but none that is inside malloc. The lock is held for the table alone.
class MappingTable {
 public:
  constexpr MappingTable() = default;
  MappingTable(const MappingTable&) = delete;
  MappingTable& operator=(const MappingTable&) = delete;

  // The calling thread mapped the memory that `params` describes, and got this handle.
  void note(ucp_mem_h handle, const ucp_mem_map_params_t& params);

  // Narrows `range`, which UCX gave for the handle, to what was last mapped under it: by the
  // calling thread, otherwise by any. Leaves it alone if nothing that was mapped lies in it.
  void narrow(ucp_mem_h handle, ucp_mem_attr_t* range);

  void before_fork() { pthread_mutex_lock(&mutex_); }
  void after_fork() { pthread_mutex_unlock(&mutex_); }

 private:
  struct Mapping {
    ucp_mem_h handle = nullptr;
    pthread_t thread{};
    uintptr_t base = 0;
    size_t length = 0;
  };
  // The oldest is forgotten: a caller queries right after mapping.
  static constexpr size_t kMappings = 256;

  // Both with the lock held.
  const Mapping* find(ucp_mem_h handle, const ucp_mem_attr_t& range) const;
  void forget(ucp_mem_h handle);

  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
  size_t noted_ = 0;
  Mapping mappings_[kMappings];  // in a circle
};

}  // namespace rdmalloc::shim
