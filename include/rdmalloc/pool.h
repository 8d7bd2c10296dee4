/* Pools: fixed-size buffers, each with its key, for the internal buffers of MPI and messaging
 * libraries. A pool takes chunks of memory from the window and looks their keys up once. It hands
 * buffers out and takes them back without a system call, in the common case without a lock, and
 * without another key lookup. C11 and C++.
 *
 * Every thread keeps a stock of free buffers of each pool that it uses, and exchanges them with the
 * pool in batches (the magazines of Bonwick and Adams, "Magazines and Vmem", 2001). No free buffer
 * is ever out of reach: if a pool has nothing else left, a get takes buffers from other threads'
 * stocks. A thread that ends returns its stock.
 *
 * If the program unmaps pages of a pool, or maps something else over them, the buffers there have no
 * key any more, and once they are free they are never handed out again: the pool grows instead.
 * Pages that it made inaccessible (mprotect) are accessible again when their buffer is handed out.
 *
 * Nothing is stored inside or beside the buffers: no header spoils their alignment, and no device
 * that writes past the end of one can break the pool. */
#ifndef RDMALLOC_POOL_H
#define RDMALLOC_POOL_H

#include <rdmalloc/rdmalloc.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Every function below may be called from any thread, not inside malloc and not in a signal
 * handler.
 *
 * fork: a child has its parent's buffers as memory, and owns no registration. There rdm_pool_get
 * and rdm_pool_key of an inherited pool return RDM_NOT_REGISTERED, whether the pool has keys or
 * not; rdm_pool_put accepts a buffer and does nothing; rdm_pool_close frees the memory, whatever is
 * in use. A child may create pools of its own. */
typedef struct rdm_pool rdm_pool;

/* A buffer and its key. `handle`, `lkey` and `rkey` are those of rdm_mr; without a domain they are
 * 0. */
typedef struct {
  void *address;
  size_t length; /* bytes: rdm_pool_options.buffer_bytes */
  uint32_t lkey;
  uint32_t rkey;
  void *handle;
} rdm_buffer;

/* For the defaults, zero everything but `size` and `buffer_bytes`. */
typedef struct {
  size_t size;         /* sizeof(rdm_pool_options), so that it may grow */
  size_t buffer_bytes; /* of each buffer, at most 1 GiB */
  size_t alignment;    /* of each buffer: a power of two up to 2 MiB; 0: a cache line */
  size_t reserve;      /* buffers to obtain and register at once; if that fails, so does creating */
  size_t most;         /* limit on the number of buffers; 0: none */
  size_t grow_by;      /* buffers to add when none is left, at most 64 MiB of them at a time; 0: in
                          proportion to those there are. Memory is taken in multiples of 64 KiB */
  unsigned flags;      /* 0, or RDM_EXPOSED: peers may be given the keys */
  char *error;         /* receives a sentence that says why creating failed; may be null */
  size_t error_size;   /* bytes at `error`; 1024 hold all of it */
} rdm_pool_options;

/* Creates a pool whose buffers are registered in `domain`, or have no keys if that is null. The
 * domain cannot be closed before the pool (rdm_domain_close: RDM_BUSY). Creating fails if `reserve`
 * buffers cannot be obtained; the message then names who holds the memory: this process, by its own
 * books, and the user's other processes that pin most. RDM_OUT_OF_BUDGET: the memory is not
 * available, or cannot be pinned; RDM_NOT_REGISTERED: the domain's device refused it; RDM_INVALID:
 * the options are wrong, or the domain is closed; RDM_UNSUPPORTED: too many pools, or buffers
 * longer than the device's memory regions; RDM_SYSTEM: no memory for bookkeeping. `*out` is set
 * only on RDM_OK. */
RDM_API int rdm_pool_create(rdm_domain *domain, const rdm_pool_options *options, rdm_pool **out);

/* Gets a buffer from the calling thread's stock, else from its NUMA node (a chunk lies on the node
 * of the thread that made the pool grow), else any. It is not zeroed; the buffer that was put last
 * comes first. Takes a few nanoseconds. RDM_OUT_OF_BUDGET: all are in use, and the limit is reached
 * or no more memory is available; rdm_last_error() says which. `*out` is set only on RDM_OK. */
RDM_API int rdm_pool_get(rdm_pool *pool, rdm_buffer *out);

/* The same, for callers that need only the address. Null with errno ENOMEM, EINVAL, or EOWNERDEAD
 * in a child of fork. */
RDM_API void *rdm_pool_get_address(rdm_pool *pool);

/* Returns a buffer, by the address that rdm_pool_get gave, from any thread. RDM_INVALID, and
 * nothing happens: no buffer of this pool starts there, or it is not in use, for example because it
 * is put twice, even by two threads at once. */
RDM_API int rdm_pool_put(rdm_pool *pool, void *address);

/* The memory region that covers the buffer in which `address` lies: the answer of rdm_lookup, from
 * the pool's own table. RDM_INVALID: no buffer of this pool; RDM_NOT_REGISTERED: the pool has no
 * domain; RDM_NOT_OWNED: the program has unmapped or replaced some of the buffer's pages. */
RDM_API int rdm_pool_key(rdm_pool *pool, const void *address, rdm_mr *out);

/* The first three count buffers. While other threads get and put they are approximate. */
typedef struct {
  uint64_t out;    /* in use: handed out by a get, and not put yet */
  uint64_t free;   /* available without growing, in threads' stocks or not */
  uint64_t held;   /* out and free together */
  uint64_t grown;  /* chunks of memory taken since the start, including those of the reserve */
  uint64_t failed; /* gets that were refused */
} rdm_pool_counts;

/* Fills the first `sizeof_out` bytes, as rdm_stats_get does. RDM_INVALID. */
RDM_API int rdm_pool_stats(rdm_pool *pool, rdm_pool_counts *out, size_t sizeof_out);

/* Frees the memory of a pool of which no buffer is in use. RDM_BUSY: some are, and the pool stays
 * open; rdm_last_error() tells how many. No other thread may be in a call on this pool. */
RDM_API int rdm_pool_close(rdm_pool *pool);

#ifdef __cplusplus
}
#endif

#endif
