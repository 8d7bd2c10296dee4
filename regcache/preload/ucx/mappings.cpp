#include "regcache/preload/ucx/mappings.h"

#include "regcache/posix_lock.h"

namespace rdmalloc::shim {

// Memory that UCX allocates has its own handle, and UCX answers for it best; whatever had that
// handle before is gone.
void MappingTable::note(ucp_mem_h handle, const ucp_mem_map_params_t& params) {
  constexpr uint64_t kNamed = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH;
  const bool allocates = (params.field_mask & UCP_MEM_MAP_PARAM_FIELD_FLAGS) != 0 &&
                         (params.flags & UCP_MEM_MAP_ALLOCATE) != 0;
  const PosixLock hold(&mutex_);
  if (allocates || (params.field_mask & kNamed) != kNamed) return forget(handle);
  mappings_[noted_++ % kMappings] = {handle, pthread_self(),
                                     reinterpret_cast<uintptr_t>(params.address), params.length};
}

void MappingTable::forget(ucp_mem_h handle) {
  for (Mapping& mapping : mappings_) {
    if (mapping.handle == handle) mapping = {};
  }
}

void MappingTable::narrow(ucp_mem_h handle, ucp_mem_attr_t* range) {
  const PosixLock hold(&mutex_);
  const Mapping* mapping = find(handle, *range);
  if (mapping == nullptr) return;
  range->address = reinterpret_cast<void*>(mapping->base);
  range->length = mapping->length;
}

// A handle may have been freed and reused for other memory; then the noted range lies outside.
const MappingTable::Mapping* MappingTable::find(ucp_mem_h handle,
                                                const ucp_mem_attr_t& range) const {
  const auto base = reinterpret_cast<uintptr_t>(range.address);
  const Mapping* of_another = nullptr;
  for (size_t age = 1; age <= kMappings && age <= noted_; ++age) {
    const Mapping& mapping = mappings_[(noted_ - age) % kMappings];
    const size_t offset = mapping.base - base;
    if (mapping.handle != handle || mapping.base < base || offset > range.length ||
        mapping.length > range.length - offset) {
      continue;
    }
    if (pthread_equal(mapping.thread, pthread_self()) != 0) return &mapping;
    if (of_another == nullptr) of_another = &mapping;
  }
  return of_another;
}

}  // namespace rdmalloc::shim
