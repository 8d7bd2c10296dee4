#include "bench/peers/ucx_cache.h"

#include <stdio.h>
#include <stdlib.h>
#include <ucm/api/ucm.h>
#include <ucs/type/status.h>

namespace rdmalloc::bench {
namespace {

// The priority that UCX's transports give their caches' event handlers.
constexpr int kEventPriority = 1000;
constexpr size_t kPage = 4096;

UcxCache::Region* region_of(ucs_rcache_region_t* region) {
  return reinterpret_cast<UcxCache::Region*>(region);
}

ucs_status_t mem_reg(void* context, ucs_rcache_t*, void*, ucs_rcache_region_t* region, uint16_t) {
  auto* base = reinterpret_cast<void*>(region->super.start);
  const size_t length = region->super.end - region->super.start;
  const bool added = static_cast<Registrar*>(context)->add(base, length, &region_of(region)->key);
  return added ? UCS_OK : UCS_ERR_IO_ERROR;
}

void mem_dereg(void* context, ucs_rcache_t*, ucs_rcache_region_t* region) {
  static_cast<Registrar*>(context)->remove(region_of(region)->key);
}

void dump_region(void*, ucs_rcache_t*, ucs_rcache_region_t* region, char* buffer, size_t size) {
  snprintf(buffer, size, "key %u", region_of(region)->key);
}

constexpr ucs_rcache_ops_t kOps = {mem_reg, mem_dereg, dump_region};

}  // namespace

UcxCache::UcxCache(Registrar& registrar, unsigned long most_regions) {
  ucs_rcache_params_t params{};
  params.region_struct_size = sizeof(Region);
  params.alignment = UCS_RCACHE_MIN_ALIGNMENT;
  params.max_alignment = kPage;
  params.ucm_events = UCM_EVENT_VM_UNMAPPED | UCM_EVENT_MEM_TYPE_FREE;
  params.ucm_event_priority = kEventPriority;
  params.ops = &kOps;
  params.context = &registrar;
  params.max_regions = most_regions;
  params.max_size = ~size_t{0};
  params.max_unreleased = ~size_t{0};
  const ucs_status_t status = ucs_rcache_create(&params, "bench", nullptr, &cache_);
  if (status == UCS_OK) return;
  fprintf(stderr, "ucs_rcache_create: %s\n", ucs_status_string(status));
  exit(EXIT_FAILURE);
}

}  // namespace rdmalloc::bench
