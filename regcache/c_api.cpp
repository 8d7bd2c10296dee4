// The C functions of include/rdmalloc/rdmalloc.h that concern domains and foreign memory.
#include "allocator/last_error.h"
#include "include/rdmalloc/backend.h"
#include "regcache/heap_source.h"
#include "regcache/open_domain.h"
#include "regcache/registry.h"

using rdmalloc::Domain;

namespace {

constinit rdmalloc::HeapSource source;
constinit rdmalloc::Registry registry(source);

Domain* domain_of(const rdm_domain* handle) {
  return reinterpret_cast<Domain*>(const_cast<rdm_domain*>(handle));
}

}  // namespace

extern "C" {

int rdm_domain_open(const rdm_backend* ops, void* ctx, const rdm_domain_options* given,
                    rdm_domain** out) {
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
  return rdmalloc::monitor_in_force(source.foreign().monitor, why).name();
}

// Aligned to a cache line: see Domain::lookup.
[[gnu::aligned(64)]] int rdm_lookup(const rdm_domain* domain, const void* address, size_t length,
                                    rdm_mr* out) {
  return Domain::lookup(domain_of(domain), address, length, out);
}

}  // extern "C"
