// Separate from the code that opens domains on it: workloads that are not linked to the library use
// this part.
#include <atomic>

#include "bench/peers/free_device.h"

namespace rdmalloc::bench {
namespace {

std::atomic<uint32_t> next_key{1};

int limits(void*, rdm_backend_limits* out) {
  out->abilities = RDM_BACKEND_IN_MALLOC;
  return RDM_OK;
}

int register_memory(void*, const rdm_backend_request*, rdm_backend_key* out, char*, size_t) {
  *out = {next_key++, 0, nullptr};
  return RDM_OK;
}

int deregister_memory(void*, const rdm_backend_key*) { return RDM_OK; }

constexpr rdm_backend kFree = {sizeof kFree,      "free", limits, register_memory,
                               deregister_memory, nullptr};

#if BENCH_HAS_UCX
class FreeRegistrar : public Registrar {
 public:
  bool add(void*, size_t, uint32_t* key) override {
    *key = next_key++;
    return true;
  }
  void remove(uint32_t) override {}
};
#endif

}  // namespace

const rdm_backend& free_backend() { return kFree; }

size_t free_registrations() { return next_key - 1; }

#if BENCH_HAS_UCX
Registrar& free_registrar() {
  static FreeRegistrar registrar;
  return registrar;
}
#endif

}  // namespace rdmalloc::bench
