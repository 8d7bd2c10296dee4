// Exposed memory for the test programs, found at run time. Nothing here allocates.
#pragma once

#include "tests/integration/probe.h"

namespace probe {

struct ExposedCalls {
  decltype(rdm_alloc)* alloc = symbol<decltype(rdm_alloc)>("rdm_alloc");
  decltype(rdm_free)* free = symbol<decltype(rdm_free)>("rdm_free");
};

inline const ExposedCalls& exposed() {
  static const ExposedCalls found;
  return found;
}

// False if the object lies in no region or only partly in one.
inline bool region_of(const void* pointer, size_t size, rdm_region* out) {
  const auto start = reinterpret_cast<uintptr_t>(pointer);
  for (size_t i = 0; library().region_get(i, out) == RDM_OK; ++i) {
    const auto base = reinterpret_cast<uintptr_t>(out->base);
    if (start >= base && start + size <= base + out->length) return true;
  }
  return false;
}

}  // namespace probe
