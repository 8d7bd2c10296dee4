#include "regcache/backends/cuda/backend.h"

#include <stdlib.h>

#include <new>

#include "allocator/failure.h"
#include "allocator/os/memory.h"
#include "regcache/backend_table.h"
#include "regcache/backends/cuda/regions.h"
#include "regcache/domain/open_domain.h"

namespace rdmalloc {
namespace {

// For each registration the driver's kernel module allocates one contiguous table of its pages, and
// the kernel refuses a table that describes 512 GiB. Longer ranges are registered in pieces.
constexpr size_t kLongestRegistration = size_t{64} << 30;

rdm_backend_key key_of(const void* base, CudaAddress on_device) {
  const auto address = reinterpret_cast<uintptr_t>(base);
  return {static_cast<uint32_t>(address), static_cast<uint32_t>(address >> 32),
          reinterpret_cast<void*>(on_device)};
}

void* base_of(const rdm_backend_key& key) {
  return reinterpret_cast<void*>(uintptr_t{key.lkey} | uintptr_t{key.rkey} << 32);
}

constinit CudaRegions regions;

}  // namespace

int CudaBackend::create(const CudaLibrary& library, CudaContext context, CudaBackend** out,
                        char* why, size_t size) {
  void* memory = malloc(sizeof(CudaBackend));
  if (memory == nullptr) return fail(RDM_SYSTEM, "no memory for bookkeeping", why, size);
  auto* backend = new (memory) CudaBackend;
  int status = backend->home_.settle(library, context, why, size);
  if (status == RDM_OK) status = backend->query(why, size);
  if (status == RDM_OK) {
    *out = backend;
  } else {
    destroy(backend);
  }
  return status;
}

void CudaBackend::destroy(CudaBackend* backend, bool) {
  backend->~CudaBackend();
  free(backend);
}

int CudaBackend::query(char* why, size_t size) {
  const auto has = [&](CudaDeviceAttribute attribute, bool unknown) {
    int value = 0;
    const CudaLibrary& library = home_.library();
    const CudaStatus status = library.get_device_attribute(&value, attribute, home_.device());
    return status == kCudaSuccess ? value != 0 : unknown;
  };
  // A driver that does not know the attribute dates from when all devices supported this.
  if (!has(kCudaHostRegisterSupported, true)) {
    return fail(RDM_UNSUPPORTED,
                "this device registers no host memory (it is not I/O coherent, as some Tegra): "
                "allocate what it copies with cuMemHostAlloc()",
                why, size);
  }
  registers_read_only_ = has(kCudaReadOnlyHostRegisterSupported, false);
  return RDM_OK;
}

void CudaBackend::limits(rdm_backend_limits* out) const {
  out->max_length = kLongestRegistration;
  out->charges = RDM_CHARGES_NOTHING;
  out->abilities = RDM_BACKEND_ONCE;
}

unsigned CudaBackend::flags_of(const rdm_backend_request& request) const {
  const unsigned flags = kCudaRegisterPortable | kCudaRegisterDeviceMap;
  const bool writes = (request.access & RDM_LOCAL_WRITE) != 0;
  return writes || !registers_read_only_ ? flags : flags | kCudaRegisterReadOnly;
}

// `shared`: another domain has registered the range, so the driver's "already registered" counts as
// success. If that registration was lost with the other domain's context, the range is registered
// again.
CudaStatus CudaBackend::call(const rdm_backend_request& request, bool shared,
                             rdm_backend_key* out) const {
  const CudaLibrary& library = home_.library();
  const CudaCurrent current(library, home_.context());
  if (current.status() != kCudaSuccess) return current.status();
  const CudaStatus status = library.host_register(request.base, request.length, flags_of(request));
  const bool is_registered =
      status == kCudaSuccess || (shared && status == kCudaHostMemoryAlreadyRegistered);
  if (!is_registered) return status;
  CudaAddress on_device = 0;
  if (library.get_device_pointer(&on_device, request.base, 0) != kCudaSuccess) on_device = 0;
  *out = key_of(request.base, on_device);
  return kCudaSuccess;
}

int CudaBackend::explain(const rdm_backend_request& request, CudaStatus status, char* why,
                         size_t size) const {
  CudaAttempt attempt;
  attempt.step = CudaAttempt::Step::kRegister;
  attempt.status = status;
  attempt.base = request.base;
  attempt.length = request.length;
  attempt.writes = (flags_of(request) & kCudaRegisterReadOnly) == 0;
  attempt.foreign = request.foreign != 0;
  attempt.count = count_.load();
  return explain_cuda_failure(home_.library(), attempt, why, size);
}

int CudaBackend::register_region(const rdm_backend_request& request, rdm_backend_key* out,
                                 char* why, size_t size) {
  using Claim = CudaRegions::Claim;
  const bool reads_only = (flags_of(request) & kCudaRegisterReadOnly) != 0;
  const Claim claim = regions.claim(request.base, reads_only);
  if (claim == Claim::kBusy) return RDM_BACKEND_LATER;
  if (claim == Claim::kNoMemory) return fail(RDM_SYSTEM, "no memory for bookkeeping", why, size);
  if (claim == Claim::kRefused) {
    return explain(request, kCudaHostMemoryAlreadyRegistered, why, size);
  }
  const CudaStatus status = call(request, claim == Claim::kShared, out);
  if (claim == Claim::kOurs) {
    regions.settle(request.base, status == kCudaSuccess);
  } else if (status != kCudaSuccess &&
             regions.release(request.base) == CudaRegions::Release::kOurs) {
    regions.forget(request.base);
  }
  if (status != kCudaSuccess) return explain(request, status, why, size);
  // Children need their heap, whatever the driver does about pinned pages.
  (void)os::inherit_on_fork(request.base, request.length);
  return RDM_OK;
}

int CudaBackend::register_memory(const rdm_backend_request& request, rdm_backend_key* out,
                                 char* why, size_t size) {
  if (home_.is_in_child()) {
    return fail(RDM_SYSTEM, "this is a child of fork, where the parent's CUDA cannot be used", why,
                size);
  }
  int result = RDM_OK;
  if (request.foreign == 0) {
    result = register_region(request, out, why, size);
  } else if (const CudaStatus status = call(request, false, out); status != kCudaSuccess) {
    result = explain(request, status, why, size);
  }
  if (result == RDM_OK) count_.fetch_add(1);
  return result;
}

// A registration whose context is gone, or whose driver has shut down at process exit, counts as
// deregistered. In a context that exists but is broken, the driver keeps its registrations.
bool CudaBackend::unregister(void* base) const {
  const CudaCurrent current(home_.library(), home_.context());
  CudaStatus status = current.status();
  if (status == kCudaSuccess) status = home_.library().host_unregister(base);
  return status == kCudaSuccess || status == kCudaHostMemoryNotRegistered || is_cuda_gone(status);
}

int CudaBackend::deregister_memory(const rdm_backend_key& key) {
  if (home_.is_in_child()) return RDM_OK;
  void* const base = base_of(key);
  const CudaRegions::Release released = regions.release(base);
  if (released != CudaRegions::Release::kShared) {
    const bool is_done = unregister(base);
    if (released == CudaRegions::Release::kOurs) regions.forget(base);
    if (!is_done) return RDM_SYSTEM;
  }
  count_.fetch_sub(1);
  return RDM_OK;
}

const rdm_backend CudaBackend::kOperations = backend_table<CudaBackend>("cuda");

}  // namespace rdmalloc

using rdmalloc::CudaBackend;
using rdmalloc::CudaLibrary;

extern "C" int rdm_domain_open_cuda(void* context, const rdm_domain_options* given,
                                    rdm_domain** out) {
  return rdmalloc::open_domain(given, out, [&](rdm_domain_options& options) {
    CudaLibrary library;
    int status = rdmalloc::find_cuda_library(&library, options.error, options.error_size);
    if (status != RDM_OK) return status;
    CudaBackend* backend = nullptr;
    status = CudaBackend::create(library, context, &backend, options.error, options.error_size);
    if (status != RDM_OK) return status;
    status = rdm_domain_open(&CudaBackend::kOperations, backend, &options, out);
    if (status != RDM_OK) CudaBackend::destroy(backend);
    return status;
  });
}
