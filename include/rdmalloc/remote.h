/* Handles of other processes' memory, such as CUDA's IPC handles. Opening one costs a hundred
 * microseconds, so an opened handle stays open for the next time. The policy is that of foreign
 * memory (rdmalloc.h), with a peer and its handle in place of an address. C11 and C++. */
#ifndef RDMALLOC_REMOTE_H
#define RDMALLOC_REMOTE_H

#include <rdmalloc/rdmalloc.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A cache of opened handles. Every function below may be called from any thread, but not inside
 * malloc or in a signal handler. In a child of fork, a cache of the parent may only be closed. */
typedef struct rdm_remote_cache rdm_remote_cache;

enum { RDM_REMOTE_MAX_HANDLE = 128 }; /* bytes of the longest handle */

/* A peer's memory, as the peer describes it. */
typedef struct {
  uint64_t peer;       /* whose it is: a rank, a process id; the caller's numbering */
  uint64_t base;       /* where it starts in the peer's address space */
  size_t length;       /* bytes */
  const void *handle;  /* what the peer exported */
  size_t handle_size;  /* bytes, at most RDM_REMOTE_MAX_HANDLE */
} rdm_remote_memory;

/* What is open. */
typedef struct {
  void *address;   /* where the peer's `base` is here */
  size_t length;   /* bytes */
} rdm_remote_mapping;

/* How handles are opened and closed. open may also return RDM_BACKEND_OVERLAPS (backend.h): memory
 * with the same base is open already. Then idle mappings of that peer that overlap it are closed,
 * and open is called again. Both may be called from several threads at a time, and must not open or
 * close caches. */
typedef struct {
  size_t size;      /* sizeof(rdm_remote_operations), so that it may grow */
  const char *name; /* a word, static */
  int (*open)(void *ctx, const rdm_remote_memory *memory, void **address, char *why,
              size_t why_size);
  int (*close)(void *ctx, void *address, size_t length);
  void (*closed)(void *ctx, int forked); /* called last; may be null */
} rdm_remote_operations;

/* For the defaults, zero everything but `size`, or pass null. */
typedef struct {
  size_t size;       /* sizeof(rdm_remote_options), so that it may grow */
  unsigned flags;    /* 0, or RDM_DOMAIN_LEAVE_NOTHING_PINNED: close each after its last use */
  uint64_t bytes;    /* limit on open memory; 0: none */
  unsigned count;    /* limit on open handles; 0: 1024; at most 65,535 */
  unsigned wait_ms;  /* how long rdm_remote_get waits if everything open is in use */
  char *error;       /* receives a sentence that says why opening the cache failed; may be null */
  size_t error_size; /* bytes at `error` */
} rdm_remote_options;

/* Opens a cache with the caller's operations. `operations` is copied; `ctx` must live until the
 * cache is closed. RDM_INVALID, RDM_SYSTEM (no memory), RDM_UNSUPPORTED (too many caches). */
RDM_API int rdm_remote_cache_open(const rdm_remote_operations *operations, void *ctx,
                                  const rdm_remote_options *options, rdm_remote_cache **out);

/* Opens a cache of CUDA IPC handles, which are opened in `context` (a CUcontext, or null for the
 * current one). Handles come from rdm_cuda_export() in another process. RDM_UNSUPPORTED if there is
 * no driver. */
RDM_API int rdm_remote_cache_open_cuda(void *context, const rdm_remote_options *options,
                                       rdm_remote_cache **out);

/* Closes the cache and all handles in it. RDM_BUSY: some memory is still in use; the cache stays
 * open. */
RDM_API int rdm_remote_cache_close(rdm_remote_cache *cache);

/* Maps the peer's memory, opening the handle unless it is open. A handle that differs from the one
 * known for overlapping memory of that peer replaces it: the peer has freed the old memory. RDM_OK
 * sets *out, to be returned with rdm_remote_put; RDM_OUT_OF_BUDGET, RDM_INVALID, or the reason why
 * open failed. */
RDM_API int rdm_remote_get(rdm_remote_cache *cache, const rdm_remote_memory *memory,
                           rdm_remote_mapping *out);

/* Returns a mapping. RDM_INVALID: it is not in use, for example because it was put already. */
RDM_API int rdm_remote_put(rdm_remote_cache *cache, const rdm_remote_mapping *mapping);

/* Says that the peer is gone, or has freed [base, base + length). Idle mappings of it are closed at
 * once, those in use after their last use. `length` SIZE_MAX with `base` 0 means all of the peer's
 * memory. */
RDM_API void rdm_remote_forget(rdm_remote_cache *cache, uint64_t peer, uint64_t base, size_t length);

/* What a cache has done so far. */
typedef struct {
  uint64_t hits, misses, evictions; /* evictions: closed to make room */
  uint64_t open;                    /* handles open now */
  uint64_t open_bytes;              /* in these */
} rdm_remote_counts;
RDM_API int rdm_remote_counts_get(const rdm_remote_cache *cache, rdm_remote_counts *out);

/* Makes a handle of this process's device memory for other processes. `handle`: the caller's buffer
 * of RDM_REMOTE_MAX_HANDLE bytes. `address` may lie inside an allocation; out->base and out->length
 * are those of the allocation. out->peer is left alone. RDM_UNSUPPORTED if there is no driver,
 * RDM_INVALID for memory that is not CUDA's. */
RDM_API int rdm_cuda_export(const void *address, rdm_remote_memory *out, void *handle);

#ifdef __cplusplus
}
#endif

#endif
