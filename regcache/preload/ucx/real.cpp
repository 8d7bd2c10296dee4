#include "regcache/preload/ucx/real.h"

#include "regcache/published.h"

namespace rdmalloc::shim {
namespace {

constinit Published<RealUcx> published;

}  // namespace

const RealUcx* real_ucx() {
  return published.get(
      [](RealUcx* out) { return find_ucx_library(UcxCaller::kInterposes, out) == nullptr; });
}

}  // namespace rdmalloc::shim
