// The functions of include/rdmalloc/adapters.h: rdm_alloc behind the interfaces of other libraries.
#include "include/rdmalloc/adapters.h"

#include <stdlib.h>

#include "allocator/last_error.h"
#include "allocator/os/cache_line.h"
#include "allocator/os/memory.h"
#include "regcache/caller_struct.h"

namespace rdmalloc {
namespace {

constexpr rdm_ucs_status kUcsOk = 0;
constexpr rdm_ucs_status kUcsNoMemory = -4;

rdm_ucs_status ucs_chunk(size_t* size, void** chunk, unsigned flags) {
  const size_t rounded = os::page_ceil(*size);
  if (rounded < *size) return kUcsNoMemory;
  void* const got = rdm_alloc(rounded, os::kCacheLine, flags);
  if (got == nullptr) return kUcsNoMemory;
  *size = rounded;
  *chunk = got;
  return kUcsOk;
}

void* slab(size_t size, const rdm_slab_options& options) {
  void* const got = rdm_alloc(size, options.alignment, options.flags);
  if (got == nullptr) {
    (void)fail(RDM_OUT_OF_BUDGET, "no memory for a slab, or its alignment or flags are wrong");
    return nullptr;
  }
  rdm_mr mr;
  if (options.domain == nullptr || size == 0) return got;
  if (rdm_lookup(options.domain, got, size, &mr) == RDM_OK) return got;
  (void)fail(RDM_NOT_REGISTERED,
             "a slab's memory is in no memory region of the domain: the budget for pinned memory "
             "is used up, or the device refused it");
  rdm_free(got);
  return nullptr;
}

}  // namespace
}  // namespace rdmalloc

extern "C" {

void* rdm_ompi_mpool_alloc(struct mca_mpool_base_module_t*, size_t size, size_t align, uint32_t) {
  return rdm_alloc(size, align, 0);
}

void* rdm_ompi_mpool_realloc(struct mca_mpool_base_module_t*, void* address, size_t size) {
  return realloc(address, size);
}

void rdm_ompi_mpool_free(struct mca_mpool_base_module_t*, void* address) { rdm_free(address); }

rdm_ucs_status rdm_ucs_chunk_alloc(struct ucs_mpool*, size_t* size, void** chunk) {
  return rdmalloc::ucs_chunk(size, chunk, 0);
}

rdm_ucs_status rdm_ucs_chunk_alloc_exposed(struct ucs_mpool*, size_t* size, void** chunk) {
  return rdmalloc::ucs_chunk(size, chunk, RDM_EXPOSED);
}

void rdm_ucs_chunk_release(struct ucs_mpool*, void* chunk) { rdm_free(chunk); }

void* rdm_genq_malloc(uintptr_t size) { return rdm_alloc(size, 0, 0); }

void* rdm_genq_malloc_exposed(uintptr_t size) { return rdm_alloc(size, 0, RDM_EXPOSED); }

void rdm_genq_free(void* address) { rdm_free(address); }

void* rdm_yaksa_malloc(uintptr_t size, void* state) {
  rdm_slab_options options;
  const auto* const given = static_cast<const rdm_slab_options*>(state);
  if (!rdmalloc::read_struct(given, sizeof given->size, &options) && given != nullptr) {
    (void)rdmalloc::fail(RDM_INVALID, "the state lacks its size: sizeof(rdm_slab_options)");
    return nullptr;
  }
  return rdmalloc::slab(size, options);
}

void rdm_yaksa_free(void* address, void*) { rdm_free(address); }

}  // extern "C"
