/* rdmalloc: malloc from one window of pinned memory whose addresses never go back to the OS.
 *
 * A program needs none of this to run under rdmalloc: relink it or preload it. This header is for
 * those who ask about the memory. C11 and C++; every function may be called from any thread, and in
 * the child of a fork, unless it says otherwise. None of them throws. */
#ifndef RDMALLOC_RDMALLOC_H
#define RDMALLOC_RDMALLOC_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RDM_API __attribute__((visibility("default")))

/* What functions return: RDM_OK, or the reason why not. */
enum {
  RDM_OK = 0,
  RDM_NOT_OWNED,      /* the address is not in the window, or not all of the range is */
  RDM_NOT_REGISTERED, /* in the window, but in no registered region */
  RDM_OUT_OF_BUDGET,  /* may not be pinned: the cap or the memlock limit is reached */
  RDM_INVALID,        /* an argument is out of range */
  RDM_UNSUPPORTED,    /* this kernel, device or build cannot do it */
  RDM_SYSTEM          /* a system call failed; errno tells */
};

/* A sentence for one of the codes above; "unknown status" for any other number. Static storage. */
RDM_API const char *rdm_strerror(int status);

/* 1 when the address lies in the window, else 0. Wait-free, about a nanosecond. In the window does
 * not say live, nor pinned. */
RDM_API int rdm_owns(const void *address);

/* Memory of at least `size` bytes, aligned to `align` (a power of two; 0 means malloc's own), always
 * from the window. `flags` is 0 or RDM_EXPOSED. Null with errno ENOMEM when the memory cap is reached
 * (or the cap, under RDMALLOC_STRICT or with RDM_EXPOSED), EINVAL for a bad argument. Free it with
 * rdm_free() or free(), never with delete.
 *
 * RDM_EXPOSED: memory that peers may be given keys to. It comes from regions that hold nothing else
 * and is always pinned, or refused. realloc() of it stays exposed. It is rounded up to whole pages of
 * its own, because a remote key opens all of its region: ask for few and large blocks. Freeing it
 * twice, or by another address than was returned, aborts with a sentence. A child of fork keeps what
 * it inherited, pinned no more, and gets none of it anew. */
enum { RDM_EXPOSED = 1 };
RDM_API void *rdm_alloc(size_t size, size_t align, unsigned flags);
RDM_API void rdm_free(void *pointer);

/* Regions: what the window consists of. A region never moves, shrinks or goes away. */
enum { RDM_REGION_PINNED = 0, RDM_REGION_OVERFLOW, RDM_REGION_SPARSE };
typedef struct {
  void *base;
  size_t length;      /* bytes */
  size_t page_size;   /* bytes; what was got: 4096 or 2 MiB */
  int kind;           /* RDM_REGION_* */
  int node;           /* NUMA node it was placed on */
  int locked;         /* 1: populated and mlocked when acquired; 0 when inherited by fork */
  int sealed;         /* 1: the kernel refuses to unmap it */
  int exposed;        /* 1: holds what was asked for with RDM_EXPOSED, and nothing else */
} rdm_region;

/* The region with this index: 0, 1, ... in the order they were acquired. RDM_INVALID past the last
 * one. `*out` is set only on RDM_OK. Lock-free. */
RDM_API int rdm_region_get(size_t index, rdm_region *out);

/* Domains: where memory is registered. A domain registers every pinned region once, as a whole, and
 * keeps it registered until it is closed; so the key of any malloc'd buffer is found in an array.
 *
 * Several domains may be open; each registers each region once, and the kernel charges each of them
 * against RLIMIT_MEMLOCK. A region acquired while a domain is open is registered at once where the
 * backend makes plain system calls only, else by a thread of ours, or by the first lookup if that
 * comes earlier. A child of fork inherits no registration: its lookups in its parent's domains say
 * RDM_NOT_REGISTERED; it may open its own. */
typedef struct rdm_domain rdm_domain;

/* The memory region of a domain that covers a buffer. */
typedef struct {
  void *base;
  size_t length;   /* bytes */
  uint32_t lkey;   /* io_uring: the buffer's index in the ring */
  uint32_t rkey;
  void *handle;    /* verbs: the struct ibv_mr; not to be deregistered */
} rdm_mr;

/* Rights, with the values of verbs' IBV_ACCESS_*. Reading locally is always allowed. */
enum { RDM_LOCAL_WRITE = 1, RDM_REMOTE_WRITE = 2, RDM_REMOTE_READ = 4, RDM_REMOTE_ATOMIC = 8 };

/* rdm_domain_options.flags. */
enum {
  RDM_DOMAIN_SHARE_HEAP = 1, /* give remote rights to all of the heap, not to exposed regions only */
  RDM_DOMAIN_PARTIAL = 2     /* open even if some region cannot be registered: lookups tell which */
};

/* Zero everything but `size`, or pass null, for the defaults. */
typedef struct {
  size_t size;         /* sizeof(rdm_domain_options), so that it may grow */
  unsigned flags;      /* RDM_DOMAIN_* */
  unsigned access;     /* rdm_domain_open: RDM_*_READ/WRITE/ATOMIC; 0 means RDM_LOCAL_WRITE */
  unsigned first_slot; /* io_uring, a ring whose caller has registered a buffer table already: */
  unsigned slots;      /* the slots of it that are the domain's; 0: the domain registers the table */
  char *error;         /* where to say why opening failed, a sentence; may be null */
  size_t error_size;   /* bytes at `error` */
} rdm_domain_options;

/* A backend outside the tree: see backend.h. */
typedef struct rdm_backend rdm_backend;

/* Opens a domain and registers every region there is. When one fails, those before it are
 * deregistered and the reason is returned: RDM_OUT_OF_BUDGET (the memlock limit), RDM_UNSUPPORTED,
 * RDM_SYSTEM, RDM_INVALID. `*out` is set only on RDM_OK. `ops` is copied; `ctx` is the backend's and
 * must stay until the domain is closed. Not from inside malloc or a signal handler. */
RDM_API int rdm_domain_open(const rdm_backend *ops, void *ctx, const rdm_domain_options *options,
                            rdm_domain **out);

/* A ring of the caller's, to which it submits; or -1: a ring that only pins, so that pages stay in
 * place for any device, and that the program cannot close. Regions beyond 1 GiB take several slots.
 * The caller's ring must stay open until the domain is closed, and must not be used by two domains.
 * A domain on a ring set up for a single issuer must be opened and closed by that thread, and is
 * served by lookups of that thread only. With options->slots, the last of them is emptied, to see that it is there. */
RDM_API int rdm_domain_open_io_uring(int ring_fd, const rdm_domain_options *options,
                                     rdm_domain **out);

/* A protection domain of libibverbs. `access`: IBV_ACCESS_* flags; options->access is not used.
 * Remote rights go to exposed regions only, unless RDM_DOMAIN_SHARE_HEAP. With IBV_ACCESS_ON_DEMAND
 * nothing is pinned and memory beyond the budget is registered too; RDM_UNSUPPORTED where the device
 * cannot page on demand. Close the domain before the protection domain. */
struct ibv_pd;
RDM_API int rdm_domain_open_verbs(struct ibv_pd *pd, int access, const rdm_domain_options *options,
                                  rdm_domain **out);

/* Deregisters all of the domain's regions. Other threads may malloc, and look up in other domains;
 * a lookup in this one that runs at the same time says registered or not, and its key is dead.
 * In a child of fork, a domain of its parent is forgotten without a call to its backend. RDM_SYSTEM:
 * some memory region could not be deregistered and is lost; the domain is closed all the same. */
RDM_API int rdm_domain_close(rdm_domain *domain);

/* The memory region that covers all of [address, address + length), which must be window memory.
 * RDM_OK, and *out; RDM_NOT_OWNED: not, or not all, in one region of the window; RDM_NOT_REGISTERED:
 * not in this domain; RDM_INVALID. A hit takes no lock and a few nanoseconds, some more in a region
 * that the device's limits cut into pieces. When the region was
 * acquired a moment ago, and not registered yet, this call does it. */
RDM_API int rdm_lookup(const rdm_domain *domain, const void *address, size_t length, rdm_mr *out);

/* Statistics: one list, from which come the struct, the JSON keys and the text report. Units are in
 * the names: bytes, ns (nanoseconds), else a count. peak: the highest since the process started. */
#define RDM_STATS_LIST(X)                                                                         \
  X(live_bytes, "in extents that hold live objects, their slack included")                        \
  X(peak_live_bytes, "highest live_bytes, looked at when the heap grows and when asked; what "     \
                     "arenas keep for reuse counts there")                                        \
  X(allocated_bytes, "in live objects, each counted at its size class")                           \
  X(held_bytes, "in regions, live or free; never shrinks")                                        \
  X(peak_held_bytes, "highest held_bytes")                                                        \
  X(pinned_bytes, "in regions populated and locked by this process, not inherited by fork")       \
  X(peak_pinned_bytes, "highest pinned_bytes")                                                    \
  X(overflow_bytes, "in regions beyond the budget: not pinned, in no domain")                     \
  X(sparse_bytes, "in regions of large zeroed requests: faulted in as touched, not pinned")       \
  X(huge_bytes, "in regions that are backed by huge pages")                                       \
  X(regions, "regions acquired")                                                                  \
  X(free_extents, "separate runs of free pages")                                                  \
  X(largest_free_bytes, "longest run of free pages")                                              \
  X(acquire_ns, "spent acquiring regions: placing, populating, locking")                          \
  X(domains, "domains open")                                                                      \
  X(registrations, "memory regions registered with devices, ever")                                \
  X(registered_bytes, "registered now, once for each domain")                                     \
  X(registered_pinned_bytes, "of these, what registering pinned: VmPin, but for the program's own") \
  X(registration_ns, "spent registering")                                                         \
  X(lookups, "keys asked for")                                                                    \
  X(lookup_misses, "keys asked for that no region had")                                           \
  X(foreign_hits, "foreign buffers found registered")                                             \
  X(foreign_misses, "foreign buffers that had to be registered")                                  \
  X(foreign_evictions, "foreign registrations given up for others")                               \
  X(budget_bytes, "most that may be pinned")                                                      \
  X(memory_cap_bytes, "most that may be held")                                                    \
  X(window_bytes, "address range reserved")                                                       \
  X(metadata_bytes, "address space mapped for bookkeeping, outside the window, not pinned")       \
  X(sealed, "regions the kernel refuses to unmap")                                                \
  X(mapped_vmas, "kernel mappings that the window is split into")                                 \
  X(forked, "1 in a child of fork: what it inherited is not pinned")

/* Which limit budget_bytes comes from. */
enum { RDM_LIMITED_BY_CAP = 0, RDM_LIMITED_BY_MEMLOCK, RDM_LIMITED_BY_AVAILABLE };

typedef struct {
#define RDM_STATS_FIELD_(name, meaning) uint64_t name; /* meaning */
  RDM_STATS_LIST(RDM_STATS_FIELD_)
#undef RDM_STATS_FIELD_
  uint64_t budget_limited_by; /* RDM_LIMITED_BY_* */
} rdm_stats;

/* Fills the first `sizeof_out` bytes of the caller's struct: pass sizeof *out, so that programs
 * built against an older, shorter struct stay right. Bytes beyond what this library knows become 0.
 * RDM_INVALID for null or 0. Reads /proc/self/maps: tens of microseconds. Not async-signal-safe. */
RDM_API int rdm_stats_get(rdm_stats *out, size_t sizeof_out);

/* Writes the same as one JSON object to a file descriptor. RDM_SYSTEM when writing fails. */
RDM_API int rdm_stats_json(int fd);

#ifdef __cplusplus
}
#endif

#endif
