// libfabric itself, behind the functions that the shim interposes.
#pragma once

#include <rdma/fabric.h>

#include <cstdint>

namespace rdmalloc::shim {

struct RealOfi {
  int (*fabric)(fi_fabric_attr*, fid_fabric**, void*) = nullptr;
  int (*open)(uint32_t, const char*, void*, size_t, uint64_t, fid**, void*) = nullptr;
  int (*fabric2)(fi_info*, fid_fabric**, uint64_t, void*) = nullptr;  // null: before 2.0
};

// Found at the first call, whose caller has libfabric loaded. Null if there is none that is new
// enough (1.13). Thread-safe.
const RealOfi* real_ofi();

}  // namespace rdmalloc::shim
