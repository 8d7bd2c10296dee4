// What a pool is asked for, checked.
#pragma once

#include <cstddef>
#include <cstdint>

#include "include/rdmalloc/rdmalloc.h"

namespace rdmalloc {

struct PoolSettings {
  rdm_domain* domain = nullptr;
  size_t buffer_bytes = 0;
  size_t alignment = 0;
  size_t reserve = 0;
  size_t most = SIZE_MAX;
  size_t grow_by = 0;
  unsigned flags = 0;
};

}  // namespace rdmalloc
