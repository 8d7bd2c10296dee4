#include "tests/support/fake_ucx.h"

#include <stdlib.h>

#include <memory>

#include "allocator/os/memory.h"

namespace rdmalloc::test {
namespace {

std::unique_ptr<FakeUcx> fake;

ucs_status_t mem_map(ucp_context_h context, const ucp_mem_map_params_t* parameters,
                     ucp_mem_h* out) {
  constexpr uint64_t kNeeded = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH;
  if (context != fake->context() || (parameters->field_mask & kNeeded) != kNeeded) abort();
  const std::lock_guard<std::mutex> hold(fake->mutex);
  const ucs_status_t status = fake->answer ? fake->answer(fake->mapped.size()) : UCS_OK;
  fake->mapped.push_back({parameters->address, parameters->length, std::this_thread::get_id()});
  if (status != UCS_OK) return status;
  fake->pinned += fake->pins * parameters->length;
  *out = reinterpret_cast<ucp_mem_h>(fake->shares_handles ? 1 : fake->mapped.size());
  fake->live[*out] = fake->mapped.back();
  return UCS_OK;
}

ucs_status_t mem_unmap(ucp_context_h context, ucp_mem_h handle) {
  const std::lock_guard<std::mutex> hold(fake->mutex);
  const auto found = fake->live.find(handle);
  if (context != fake->context() || found == fake->live.end()) abort();
  fake->pinned -= fake->pins * found->second.length;
  fake->unmapped.push_back(found->second.base);
  fake->live.erase(found);
  return UCS_OK;
}

ucs_status_t context_query(ucp_context_h context, ucp_context_attr_t* attributes) {
  if (context != fake->context()) abort();
  if ((attributes->field_mask & UCP_ATTR_FIELD_THREAD_MODE) != 0) {
    attributes->thread_mode = fake->thread_mode;
  }
  return UCS_OK;
}

const char* status_string(ucs_status_t) { return "made-up failure"; }

uint64_t pinned_memory() {
  const std::lock_guard<std::mutex> hold(fake->mutex);
  return fake->pinned;
}

}  // namespace

FakeUcx& reset_fake_ucx() {
  fake = std::make_unique<FakeUcx>();
  return *fake;
}

UcxLibrary fake_ucx_library() {
  UcxLibrary library;
  library.mem_map = mem_map;
  library.mem_unmap = mem_unmap;
  library.context_query = context_query;
  library.status_string = status_string;
  library.pinned_memory = pinned_memory;
  return library;
}

}  // namespace rdmalloc::test

// The fake system calls have none.
namespace rdmalloc::os {

Status inherit_on_fork(void* address, size_t) {
  const std::lock_guard<std::mutex> hold(test::fake->mutex);
  test::fake->shown.push_back(address);
  return Status::kOk;
}

}  // namespace rdmalloc::os

// rdm_domain_open_ucx() needs one to link; the backend's unit tests do not link the library's own.
extern "C" int rdm_domain_open(const rdm_backend*, void*, const rdm_domain_options*, rdm_domain**) {
  return RDM_UNSUPPORTED;
}
