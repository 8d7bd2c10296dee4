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

}  // namespace probe
