// Whether, and when, a registration that failed is worth another try.
#pragma once

#include <cstdint>

#include "include/rdmalloc/backend.h"

namespace rdmalloc {

enum class Cause : uint8_t {
  kPassing,  // may work soon
  kNoRoom,   // may work once something is given back
  kForGood,
  kPartly,  // registered in part: the device had no memory region left for the rest
};

// `status`: of rdmalloc.h or backend.h.
constexpr Cause cause_of(int status) {
  switch (status) {
    case RDM_OUT_OF_BUDGET:
    case RDM_NOT_REGISTERED:
      return Cause::kNoRoom;
    case RDM_UNSUPPORTED:
    case RDM_INVALID:
    case RDM_BACKEND_NEVER:
      return Cause::kForGood;
    default:
      return Cause::kPassing;
  }
}

}  // namespace rdmalloc
