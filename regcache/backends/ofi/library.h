// libfabric itself, of which only what is not inline in its headers has to be found: what imports
// the memory monitor, and what is behind the functions that the shim interposes.
#pragma once

#include <rdma/fabric.h>

#include <cstddef>
#include <cstdint>

namespace rdmalloc {

struct OfiLibrary {
  int (*fabric)(fi_fabric_attr*, fid_fabric**, void*) = nullptr;
  int (*open)(uint32_t, const char*, void*, size_t, uint64_t, fid**, void*) = nullptr;
  int (*fabric2)(fi_info*, fid_fabric**, uint64_t, void*) = nullptr;  // null: before 2.0
};

// Finds the libfabric that the process has loaded. Null, and `*missing` is a sentence, if there is
// none, or none that is new enough (1.13). Thread-safe.
const OfiLibrary* find_ofi_library(const char** missing);

}  // namespace rdmalloc
