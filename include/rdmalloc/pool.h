/* Pools: fixed-size buffers, each with its key, for what an MPI or messaging library sends from and
 * receives into inside. A pool takes chunks of memory from the window, finds out their keys when it
 * takes them, and hands buffers out and takes them back without a system call, without a lock in the
 * common case, and without asking for a key again. C11 and C++.
 *
 * Every thread keeps some free buffers of each pool that it uses, and exchanges them in batches with
 * the pool (the magazines of Bonwick and Adams, "Magazines and Vmem", 2001). What a thread keeps is
 * never out of reach: when a pool has nothing else left, a get takes buffers from other threads'
 * stocks. A thread that ends gives its stock back.
 *
 * Nothing is kept inside or beside the buffers: no header spoils their alignment, and no device that
 * writes past the end of one can break the pool. */
#ifndef RDMALLOC_POOL_H
#define RDMALLOC_POOL_H

#include <rdmalloc/rdmalloc.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Every function below may be called from any thread, not inside malloc and not in a signal handler.
 *
 * fork: a child has its parent's buffers as memory, and owns no registration. rdm_pool_get and
 * rdm_pool_key of an inherited pool say RDM_NOT_REGISTERED there, with a key or without; rdm_pool_put
 * takes a buffer and does nothing; rdm_pool_close frees the memory, whatever is out. A child may
 * create pools of its own. */
typedef struct rdm_pool rdm_pool;

/* A buffer and its key; what `handle`, `lkey` and `rkey` mean: rdm_mr. Without a domain they are 0. */
typedef struct {
  void *address;
  size_t length; /* bytes: rdm_pool_options.buffer_bytes */
  uint32_t lkey;
  uint32_t rkey;
  void *handle;
} rdm_buffer;

/* Zero everything but `size` and `buffer_bytes` for the defaults. */
typedef struct {
  size_t size;         /* sizeof(rdm_pool_options), so that it may grow */
  size_t buffer_bytes; /* of each buffer, at most 1 GiB */
  size_t alignment;    /* of each buffer: a power of two up to 2 MiB; 0: a cache line */
  size_t reserve;      /* buffers to obtain and register at once, or to refuse to start */
  size_t most;         /* buffers there may be; 0: no limit */
  size_t grow_by;      /* buffers to obtain when none is left, at most 64 MiB of them at a time; 0: in
                          proportion to what there is. Memory is taken in multiples of 64 KiB */
  unsigned flags;      /* 0, or RDM_EXPOSED: peers may be given the keys */
  char *error;         /* where to say why creating failed, a sentence; may be null */
  size_t error_size;   /* bytes at `error`; 1024 hold all of it */
} rdm_pool_options;

/* A pool whose buffers are registered in `domain`, or have no key if that is null. The domain
 * stays open until the pool is closed (rdm_domain_close: RDM_BUSY). Fails rather than start with less than `reserve`, and then says
 * who holds the memory: this process, by its books, and the other processes of the user that pin most.
 * RDM_OUT_OF_BUDGET: the memory cannot be had, or not be pinned; RDM_NOT_REGISTERED: the domain's
 * device refused it; RDM_INVALID: the options are wrong, or the domain is closed; RDM_UNSUPPORTED:
 * too many pools, or buffers longer than the device's memory regions; RDM_SYSTEM: no memory for
 * bookkeeping. `*out` is set only on RDM_OK. */
RDM_API int rdm_pool_create(rdm_domain *domain, const rdm_pool_options *options, rdm_pool **out);

/* A buffer, of the calling thread's stock, else of its NUMA node (a chunk lies on the node of the
 * thread that made the pool grow), else any. Not zeroed; the one put back last comes first. A few
 * nanoseconds. RDM_OUT_OF_BUDGET: all are out, and there may be no more, or no more could be had;
 * rdm_last_error() says which. `*out` is set only on RDM_OK. */
RDM_API int rdm_pool_get(rdm_pool *pool, rdm_buffer *out);

/* The same, for who needs the address alone. Null with errno ENOMEM, EINVAL, or EOWNERDEAD in a child
 * of fork. */
RDM_API void *rdm_pool_get_address(rdm_pool *pool);

/* Gives a buffer back, by the address that was got, from any thread. RDM_INVALID, and nothing
 * happens: no buffer of this pool starts there, or it is not out, as when it is put twice, even by
 * two threads at once. */
RDM_API int rdm_pool_put(rdm_pool *pool, void *address);

/* The memory region that covers the buffer in which `address` lies, as rdm_lookup tells it; from the
 * pool's own table. RDM_INVALID: no buffer of this pool; RDM_NOT_REGISTERED: the pool has no
 * domain. */
RDM_API int rdm_pool_key(rdm_pool *pool, const void *address, rdm_mr *out);

/* Counts of buffers, but for the last two. While other threads get and put they are approximate. */
typedef struct {
  uint64_t out;    /* got and not put back */
  uint64_t free;   /* to be had without growing, in stocks of threads or not */
  uint64_t held;   /* there are: out and free */
  uint64_t grown;  /* chunks of memory taken since the start, those of the reserve included */
  uint64_t failed; /* gets that were refused */
} rdm_pool_counts;

/* Fills the first `sizeof_out` bytes, as rdm_stats_get does. RDM_INVALID. */
RDM_API int rdm_pool_stats(rdm_pool *pool, rdm_pool_counts *out, size_t sizeof_out);

/* Frees the memory of a pool of which nothing is out. RDM_BUSY: something is, and the pool goes on;
 * rdm_last_error() tells how many. No other thread may be in a call on the pool that is closed. */
RDM_API int rdm_pool_close(rdm_pool *pool);

#ifdef __cplusplus
}
#endif

#endif
