#include "regcache/backends/ucx/backend.h"

#include <stdlib.h>
#include <sys/mman.h>

#include <new>

#include "allocator/failure.h"
#include "allocator/os/limits.h"
#include "allocator/os/memory.h"
#include "regcache/backend_table.h"
#include "regcache/domain/fork_gate.h"
#include "regcache/domain/open_domain.h"

namespace rdmalloc {
namespace {

// Mapped once and unmapped, to see what the kernel charges for it. More than one page, because
// others may pin a few at the same time.
size_t trial_bytes() { return 64 * os::page_size(); }

}  // namespace

int UcxBackend::create(const UcxLibrary& library, ucp_context_h context, UcxBackend** out,
                       char* why, size_t size) {
  if (context == nullptr) {
    return fail(RDM_INVALID, "there is no UCP context: ucp_init gives one", why, size);
  }
  void* memory = malloc(sizeof(UcxBackend));
  if (memory == nullptr) return fail(RDM_SYSTEM, "no memory for bookkeeping", why, size);
  auto* backend = new (memory) UcxBackend(library, context);
  fork_gate.register_handlers();
  int status = backend->check_threads(why, size);
  if (status == RDM_OK) status = backend->try_mapping(why, size);
  if (status != RDM_OK) {
    destroy(backend);
    return status;
  }
  *out = backend;
  return RDM_OK;
}

void UcxBackend::destroy(UcxBackend* backend, bool) {
  backend->~UcxBackend();
  free(backend);
}

// A context locks itself only if its creator declared several threads; our thread comes on top of
// the program's.
int UcxBackend::check_threads(char* why, size_t size) const {
  ucp_context_attr_t attributes{};
  attributes.field_mask = UCP_ATTR_FIELD_THREAD_MODE;
  if (library_.context_query(context_, &attributes) == UCS_OK &&
      attributes.thread_mode == UCS_THREAD_MODE_MULTI) {
    return RDM_OK;
  }
  return fail(RDM_INVALID,
              "this UCP context is for one thread, and regions are mapped by another: set "
              "mt_workers_shared = 1 (UCP_PARAM_FIELD_MT_WORKERS_SHARED) for ucp_init, with a UCX "
              "that was built with --enable-mt",
              why, size);
}

// UCX does not say whether its transports pin: shared memory and TCP do not; those of a network
// card do unless they page on demand. So we map scratch memory and ask the kernel.
int UcxBackend::try_mapping(char* why, size_t size) {
  void* trial =
      mmap(nullptr, trial_bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (trial == MAP_FAILED) return fail(RDM_SYSTEM, "no memory for bookkeeping", why, size);
  const uint64_t before = library_.pinned_memory();
  ucp_mem_h handle = nullptr;
  const ucs_status_t status = map(trial, trial_bytes(), &handle);
  pins_ = status != UCS_OK || library_.pinned_memory() >= before + trial_bytes();
  if (status == UCS_OK) (void)library_.mem_unmap(context_, handle);
  munmap(trial, trial_bytes());
  if (status == UCS_OK) return RDM_OK;
  return explain_ucx_failure(library_, {trial_bytes(), status, pins_}, why, size);
}

void UcxBackend::limits(rdm_backend_limits* out) const {
  out->charges = pins_ ? RDM_CHARGES_PROCESS : RDM_CHARGES_NOTHING;
}

// Names the kind of memory; otherwise UCX asks every driver it knows whether the memory belongs to
// it.
ucs_status_t UcxBackend::map(void* base, size_t length, ucp_mem_h* out) const {
  ucp_mem_map_params_t parameters{};
  parameters.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH |
                          UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE;
  parameters.address = base;
  parameters.length = length;
  parameters.memory_type = UCS_MEMORY_TYPE_HOST;
  return library_.mem_map(context_, &parameters, out);
}

// UCX pins its own buffers after the heap is mapped, and terminates the program if it cannot. So
// the heap takes only what UCX leaves over. Memory pinned by others so far counts as UCX's.
bool UcxBackend::leaves_room(size_t bytes) const {
  const uint64_t limit = os::lock_limit().effective();
  if (!pins_ || limit == os::kNoLimit) return true;
  const uint64_t pinned = library_.pinned_memory();
  const uint64_t ours = mapped_.load(std::memory_order_relaxed);
  const uint64_t others = pinned > ours ? pinned - ours : 0;
  const uint64_t reserved = others < kUcxOwnPins ? kUcxOwnPins - others : 0;
  return pinned + reserved + bytes <= limit;
}

// UCX returns the same handle if the same memory is mapped twice; the serial number tells the two
// registrations apart. Foreign memory that the program itself hides from children stays hidden.
int UcxBackend::register_memory(const rdm_backend_request& request, rdm_backend_key* out, char* why,
                                size_t why_size) {
  const bool is_region = request.foreign == 0;
  if (is_region && !leaves_room(request.length)) {
    return refuse_for_room(library_, request.length, why, why_size);
  }
  if (!fork_gate.enter()) return RDM_BACKEND_LATER;
  ucp_mem_h handle = nullptr;
  const ucs_status_t status = map(request.base, request.length, &handle);
  if (is_region) (void)os::inherit_on_fork(request.base, request.length);
  fork_gate.leave();
  if (status != UCS_OK) {
    return explain_ucx_failure(library_, {request.length, status, pins_}, why, why_size);
  }
  if (is_region) mapped_.fetch_add(request.length, std::memory_order_relaxed);
  *out = {serial_.fetch_add(1), 0, handle};
  return RDM_OK;
}

int UcxBackend::deregister_memory(const rdm_backend_key& key) {
  return library_.mem_unmap(context_, static_cast<ucp_mem_h>(key.handle)) == UCS_OK ? RDM_OK
                                                                                    : RDM_SYSTEM;
}

const rdm_backend UcxBackend::kOperations = backend_table<UcxBackend>("ucx");

}  // namespace rdmalloc

using rdmalloc::UcxBackend;
using rdmalloc::UcxLibrary;

extern "C" int rdm_domain_open_ucx(ucp_context* context, const rdm_domain_options* given,
                                   rdm_domain** out) {
  return rdmalloc::open_domain(given, out, [&](rdm_domain_options& options) {
    UcxLibrary library;
    if (const char* missing = rdmalloc::find_ucx_library(rdmalloc::UcxCaller::kCalls, &library)) {
      return rdmalloc::fail(RDM_UNSUPPORTED, missing, options.error, options.error_size);
    }
    library.pinned_memory = rdmalloc::pinned_by_registrations;
    UcxBackend* backend = nullptr;
    int status = UcxBackend::create(library, context, &backend, options.error, options.error_size);
    if (status != RDM_OK) return status;
    // UCX grants fixed rights, which the program cannot choose: see the header.
    options.access = RDM_LOCAL_WRITE;
    status = rdm_domain_open(&UcxBackend::kOperations, backend, &options, out);
    if (status != RDM_OK) UcxBackend::destroy(backend);
    return status;
  });
}
