// The domain and foreign-memory functions of include/rdmalloc/rdmalloc.h.
#include "allocator/last_error.h"
#include "allocator/os/limits.h"
#include "allocator/os/memory.h"
#include "allocator/pages/heap.h"
#include "include/rdmalloc/backend.h"
#include "regcache/domain/heap_source.h"
#include "regcache/domain/held_keys.h"
#include "regcache/domain/open_domain.h"
#include "regcache/domain/pinned_memory.h"
#include "regcache/domain/registry.h"

using rdmalloc::Domain;

namespace {

constinit rdmalloc::HeapSource source;
constinit rdmalloc::Registry registry(source);

Domain* domain_of(const rdm_domain* handle) {
  return reinterpret_cast<Domain*>(const_cast<rdm_domain*>(handle));
}

// By how many bytes locking `bytes` more would exceed the locked-memory limit, as the kernel
// counts.
uint64_t beyond_limit(uint64_t bytes) {
  const uint64_t limit = rdmalloc::os::lock_limit().effective();
  return limit == rdmalloc::os::kNoLimit
             ? 0
             : rdmalloc::os::less(rdmalloc::pinned_by_registrations() + bytes, limit);
}

}  // namespace

extern "C" {

int rdm_domain_open(const rdm_backend* ops, void* ctx, const rdm_domain_options* given,
                    rdm_domain** out) {
  rdmalloc::start_heap();
  return rdmalloc::open_domain(given, out, [&](const rdm_domain_options& options) {
    Domain* domain = nullptr;
    const int status = registry.open(ops, ctx, &options, &domain);
    if (status == RDM_OK) *out = reinterpret_cast<rdm_domain*>(domain);
    return status;
  });
}

int rdm_domain_close(rdm_domain* domain) { return registry.close(domain_of(domain)); }

const char* rdm_last_error(void) { return rdmalloc::last_error(); }

int rdm_get(rdm_domain* domain, const void* address, size_t length, rdm_mr* out) {
  return Domain::get(domain_of(domain), address, length, out);
}

int rdm_put(rdm_domain* domain, const rdm_mr* mr) { return Domain::put(domain_of(domain), mr); }

void rdm_invalidate(const void* address, size_t length) {
  rdmalloc::Change change(address, length);
}

const char* rdm_monitor(const char** why) {
  rdmalloc::start_heap();
  return rdmalloc::monitor_in_force(source.foreign().monitor, why).name();
}

// Aligned to a cache line: see Domain::lookup.
[[gnu::aligned(64)]] int rdm_lookup(const rdm_domain* domain, const void* address, size_t length,
                                    rdm_mr* out) {
  return Domain::lookup(domain_of(domain), address, length, out);
}

int rdm_shim_hold(rdm_domain* domain, const void* address, size_t length, rdm_mr* out,
                  uint32_t* use) {
  if (domain == nullptr) return RDM_INVALID;
  return domain_of(domain)->key_holds().hold(address, length, out, use);
}

void rdm_shim_let_go(rdm_domain* domain, uint32_t use) {
  domain_of(domain)->key_holds().let_go(use);
}

void rdm_shim_leave_free(rdm_domain* domain, size_t bytes) {
  domain_of(domain)->parts().device.leave_free(bytes);
}

int rdm_shim_make_room(rdm_domain* const* domains, size_t count, size_t of_device, size_t length) {
  // A buffer may begin and end in the middle of a page.
  const uint64_t bytes = rdmalloc::os::page_ceil(length) + rdmalloc::os::page_size();
  const uint64_t missing = beyond_limit(bytes);
  const bool is_limit = missing != 0;
  return registry.room().make_room(reinterpret_cast<Domain* const*>(domains),
                                   is_limit ? count : of_device, is_limit ? missing : bytes,
                                   is_limit)
             ? 1
             : 0;
}

void rdm_shim_end_room(void) { registry.room().end(); }

}  // extern "C"
