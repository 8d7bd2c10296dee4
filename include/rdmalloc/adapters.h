/* Adapters: functions with exactly the signatures that pools inside MPI libraries expect of their
 * chunk allocators, so that chunks lie in registered memory and need no registration of their own.
 * Use them where the library has its own malloc, mmap or memalign. C11 and C++. They need neither
 * the headers of these libraries nor, at run time, the libraries.
 *
 * A chunk lies in one region of the window, so rdm_lookup(domain, chunk, bytes, ...) gives one key
 * for all of it. It is pinned as far as the budget allows. All functions may be called from any
 * thread and in a child of fork, but not inside malloc. Free each chunk with the matching function,
 * or with rdm_free().
 *
 * The signatures are those of Open MPI 4.1 and 5.0 (opal/mca/mpool/mpool.h), UCX 1.13 to 1.18
 * (ucs/datastruct/mpool.h), MPICH 4 (mpidu_genq_common.h) and yaksa (yaksu_buffer_pool.h). */
#ifndef RDMALLOC_ADAPTERS_H
#define RDMALLOC_ADAPTERS_H

#include <rdmalloc/rdmalloc.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Open MPI: the members mpool_alloc, mpool_realloc and mpool_free of a module. They use no other
 * member of it, and it may be null. `align`: a power of two, or 0. `flags` (MCA_MPOOL_FLAGS_*) are
 * ignored: this memory has all that they ask for. Null: no memory. */
struct mca_mpool_base_module_t;
RDM_API void *rdm_ompi_mpool_alloc(struct mca_mpool_base_module_t *module, size_t size, size_t align,
                                   uint32_t flags);
RDM_API void *rdm_ompi_mpool_realloc(struct mca_mpool_base_module_t *module, void *address,
                                     size_t size);
RDM_API void rdm_ompi_mpool_free(struct mca_mpool_base_module_t *module, void *address);

/* UCX: the members chunk_alloc and chunk_release of ucs_mpool_ops_t. `*size` becomes the size of
 * the chunk: whole pages. UCS_OK or UCS_ERR_NO_MEMORY. ucs_status_t is an enumeration of one byte.
 * If you include its header before this one, the functions return that type, as C++ requires. */
#ifdef UCS_TYPES_STATUS_H_
typedef ucs_status_t rdm_ucs_status;
#else
typedef signed char rdm_ucs_status;
#endif
struct ucs_mpool;
RDM_API rdm_ucs_status rdm_ucs_chunk_alloc(struct ucs_mpool *pool, size_t *size, void **chunk);
RDM_API void rdm_ucs_chunk_release(struct ucs_mpool *pool, void *chunk);
/* The same, of exposed memory (RDM_EXPOSED). */
RDM_API rdm_ucs_status rdm_ucs_chunk_alloc_exposed(struct ucs_mpool *pool, size_t *size,
                                                   void **chunk);

/* MPICH's genq pools (MPIDU_genq_malloc_fn, MPIDU_genq_free_fn), and older yaksa: no context. */
RDM_API void *rdm_genq_malloc(uintptr_t size);
RDM_API void *rdm_genq_malloc_exposed(uintptr_t size);
RDM_API void rdm_genq_free(void *address);

/* yaksa's buffer pools (yaksu_malloc_fn, yaksu_free_fn): with a state. `state` points to an
 * rdm_slab_options that lives as long as the pool, or is null for the defaults. */
typedef struct {
  size_t size;        /* sizeof(rdm_slab_options), so that it may grow */
  rdm_domain *domain; /* refuse memory that is not registered there; null: accept any */
  size_t alignment;   /* a power of two; 0: malloc's own */
  unsigned flags;     /* 0, or RDM_EXPOSED */
} rdm_slab_options;
/* Null: no memory, or none that is registered; rdm_last_error() tells. */
RDM_API void *rdm_yaksa_malloc(uintptr_t size, void *state);
RDM_API void rdm_yaksa_free(void *address, void *state);

#ifdef __cplusplus
}
#endif

#endif
