/* rdmalloc: malloc from one window of pinned memory whose addresses never go back to the OS.
 *
 * A program needs none of this to run under rdmalloc: preload the library or link to it. This
 * header is for programs that ask about the memory. C11 and C++. Unless it says otherwise, every
 * function may be called from any thread and in a child of fork. None of them throws. */
#ifndef RDMALLOC_RDMALLOC_H
#define RDMALLOC_RDMALLOC_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RDM_API __attribute__((visibility("default")))

/* What functions return: RDM_OK, or why they failed. */
enum {
  RDM_OK = 0,
  RDM_NOT_OWNED,      /* the address is not in the window, or not all of the range is */
  RDM_NOT_REGISTERED, /* in the window, but in no registered region */
  RDM_OUT_OF_BUDGET,  /* may not be pinned: the cap or the memlock limit is reached */
  RDM_INVALID,        /* an argument is out of range */
  RDM_UNSUPPORTED,    /* this kernel, device or build cannot do it */
  RDM_SYSTEM,         /* a system call, or the device, failed; errno or rdm_last_error() tells */
  RDM_BUSY,           /* something is still in use and must be released first */
  RDM_AGAIN,          /* nothing is available now; try later */
  RDM_PEER_DIED       /* another process that this needs is gone */
};

/* A sentence for one of the codes above; "unknown status" for any other number. Static storage. */
RDM_API const char *rdm_strerror(int status);

/* Explains the last status other than RDM_OK that this thread got from a function of this header,
 * pool.h, ofi.h or remote.h (shm.h has its own): the cause, and what to do. Empty before the first
 * failure; valid until the thread's next one. A child of fork starts with its parent's. This costs
 * rdm_lookup nothing on a hit, and one store on a miss. */
RDM_API const char *rdm_last_error(void);

/* 1 if the address lies in a region of the window and was not retired, else 0. Wait-free, one or two
 * nanoseconds. The memory need not be live or pinned. */
RDM_API int rdm_owns(const void *address);

/* Allocates at least `size` bytes, aligned to `align` (a power of two; 0: malloc's alignment),
 * always from the window. `flags` is 0 or RDM_EXPOSED. Returns null with errno ENOMEM when the
 * memory cap is reached (or the cap, under RDMALLOC_STRICT or with RDM_EXPOSED), EINVAL for a bad
 * argument. Free it with rdm_free() or free(), never with delete.
 *
 * RDM_EXPOSED: memory to which peers may be given keys. It comes from regions that hold nothing
 * else, and is pinned or refused. After realloc() it is still exposed. Because a remote key opens
 * its whole region, each block is rounded up to pages of its own: ask for few and large blocks.
 * Freeing a block twice, or by another address than was returned, aborts with a message. A child of
 * fork keeps what it inherited, no longer pinned, and cannot allocate more. */
enum { RDM_EXPOSED = 1 };
RDM_API void *rdm_alloc(size_t size, size_t align, unsigned flags);
RDM_API void rdm_free(void *pointer);

/* Regions: what the window consists of. A region keeps its addresses, and goes away only when it has
 * lost all its pages. */
enum { RDM_REGION_PINNED = 0, RDM_REGION_OVERFLOW, RDM_REGION_SPARSE };
typedef struct {
  void *base;
  size_t length;      /* bytes */
  size_t page_size;   /* bytes: of base or huge pages, as found at most a tenth of a second ago */
  int kind;           /* RDM_REGION_* */
  int node;           /* NUMA node of the thread that it was acquired for */
  int locked;         /* 1: mlocked, each page once it is there; 0 when inherited by fork */
  int sealed;         /* 1: the kernel refuses to unmap it */
  int exposed;        /* 1: holds RDM_EXPOSED memory, and nothing else */
} rdm_region;

/* The region with this index: 0, 1, ..., counting regions that have pages. Parts of it may have
 * been retired. After the heap has grown, an index may name another region, so a walk may miss one
 * while other threads allocate: repeat it. RDM_INVALID past the last one. `*out` is set only on
 * RDM_OK. Lock-free. */
RDM_API int rdm_region_get(size_t index, rdm_region *out);

/* The region that holds this address. RDM_NOT_OWNED: outside the window, in no region, or on a page
 * that was retired; RDM_INVALID: no `out`. `*out` is set only on RDM_OK. Lock-free, a few
 * nanoseconds; where transparent huge pages are used, page_size is read from /proc at most ten times
 * a second. */
RDM_API int rdm_region_of(const void *address, rdm_region *out);

/* Domains: where memory is registered. A domain registers every pinned region once, as a whole, and
 * keeps it registered until the domain is closed. So the key of any malloc'd buffer is an array
 * lookup.
 *
 * Several domains may be open. Each registers each region once, and the kernel charges each of them
 * against RLIMIT_MEMLOCK. A region acquired while a domain is open is registered at once if the
 * backend makes plain system calls only, otherwise by a thread of the library, or by the first
 * lookup if that comes earlier. A lookup in a large region that is not registered yet registers
 * only a part of it, which is quick. The part's key stays good, but later lookups return the
 * region's key. A child of fork inherits no registration: lookups in its parent's domains return
 * RDM_NOT_REGISTERED. It may open its own domains.
 *
 * Kernels before 5.12 do not copy pinned pages at fork, unless the distribution backported that.
 * While a child lives, the first of the two processes that writes to a registered page takes that
 * page away from the parent's registration. On such a kernel, opening the first domain that pins
 * prints one line on standard error, and `rdmalloc doctor` says so, too. posix_spawn, vfork, and
 * domains opened with RDM_DOMAIN_RELEASE_AT_FORK are not affected. */
typedef struct rdm_domain rdm_domain;

/* The memory region of a domain that covers a buffer. */
typedef struct {
  void *base;
  size_t length;   /* bytes */
  uint32_t lkey;   /* io_uring: the buffer's index in the ring */
  uint32_t rkey;
  void *handle;    /* verbs: the struct ibv_mr; do not deregister it. CUDA: the device's address of
                      `base` */
} rdm_mr;

/* Rights, with the values of verbs' IBV_ACCESS_*. Reading locally is always allowed. */
enum { RDM_LOCAL_WRITE = 1, RDM_REMOTE_WRITE = 2, RDM_REMOTE_READ = 4, RDM_REMOTE_ATOMIC = 8 };

/* rdm_domain_options.flags. */
enum {
  RDM_DOMAIN_SHARE_HEAP = 1, /* give remote rights to all of the heap, not to exposed regions only */
  RDM_DOMAIN_PARTIAL = 2,    /* open even if some region cannot be registered: lookups tell which */
  RDM_DOMAIN_LEAVE_NOTHING_PINNED = 4, /* register foreign memory only while it is in use */
  RDM_DOMAIN_DO_NOT_WAIT = 8, /* return RDM_BUSY instead of waiting while another thread opens or
                                closes a domain: for callers that may hold a lock that a driver
                                needs */
  RDM_DOMAIN_WHEN_ASKED = 16, /* register a region at the first lookup in it, not before: for
                                callers that cannot know whether the domain will be used at all */
  RDM_DOMAIN_CALLERS_ONLY = 32, /* call the backend only in threads that look up in this domain or
                                close it: for a device library that takes no locks, where the caller
                                keeps such threads apart. A region is registered at its first
                                lookup; rdm_get of foreign memory returns RDM_UNSUPPORTED.
                                RDM_INVALID for a backend with RDM_BACKEND_IN_MALLOC, and for
                                pools */
  RDM_DOMAIN_RELEASE_AT_FORK = 64, /* deregister what the domain has before each fork(), so that the
                                kernel does not copy all of it for the child (posix_spawn and vfork
                                copy nothing and deregister nothing). The caller of fork makes sure
                                that no device uses the heap meanwhile. Keys from before the fork
                                are dead; a region is registered again at its next lookup. Foreign
                                memory in use (rdm_get) stays registered. RDM_INVALID for pools */
  RDM_DOMAIN_NAMED_ONLY = 128 /* register only what the program names: what it passes to rdm_get,
                                malloc'd or not; pools in this domain, which take exposed memory;
                                and exposed regions. Lookups in the rest of the heap return
                                RDM_NOT_REGISTERED. A malloc'd buffer stays registered, with the
                                whole pages that it lies on, until its last rdm_put. For devices
                                whose library treats registered memory differently, as CUDA does */
};

/* For the defaults, zero everything but `size`, or pass null. */
typedef struct {
  size_t size;         /* sizeof(rdm_domain_options), so that it may grow */
  unsigned flags;      /* RDM_DOMAIN_* */
  unsigned access;     /* rdm_domain_open: RDM_*_READ/WRITE/ATOMIC; 0 means RDM_LOCAL_WRITE */
  unsigned first_slot; /* io_uring, if the caller has registered a buffer table with the ring: */
  unsigned slots;      /* the slots that the domain may use; 0: the domain registers the table */
  char *error;         /* receives a sentence that says why opening failed; may be null */
  size_t error_size;   /* bytes at `error` */
  uint64_t foreign_bytes;   /* limit on registered foreign memory; 0: RDMALLOC_FOREIGN_BYTES, a
                               share of the memlock limit at the time of opening; UINT64_MAX: none
                               but the device's and the memlock limit */
  unsigned foreign_count;   /* limit on registrations of it; 0: RDMALLOC_FOREIGN_COUNT */
  unsigned foreign_wait_ms; /* how long rdm_get waits if everything registered is in use; 0: not at
                               all */
} rdm_domain_options;

/* A backend outside the tree: see backend.h. */
typedef struct rdm_backend rdm_backend;

/* Opens a domain and registers every existing region. If one fails, those before it are
 * deregistered and the reason is returned: RDM_OUT_OF_BUDGET (the memlock limit), RDM_UNSUPPORTED,
 * RDM_SYSTEM, RDM_INVALID, or RDM_BUSY (too many domains are open, a backend is calling, or another
 * thread opens or closes a domain: RDM_DOMAIN_DO_NOT_WAIT). `*out` is set only on RDM_OK. `ops` is
 * copied; `ctx` is passed to the backend and must live until the domain is closed. Not from inside
 * malloc or a signal handler. The functions below open domains on the library's own backends, and
 * return the same. */
RDM_API int rdm_domain_open(const rdm_backend *ops, void *ctx, const rdm_domain_options *options,
                            rdm_domain **out);

/* Opens a domain on a ring to which the caller submits; or, with -1, on a ring of the library's own
 * that only pins, so that pages stay in place for any device, and that the program cannot close.
 * Regions beyond 1 GiB take several slots. The caller's ring must stay open until the domain is
 * closed, and two domains must not use it. A domain on a ring set up for a single issuer must be
 * opened and closed by that thread, and only lookups of that thread register. With options->slots,
 * the last slot is emptied, to check that it exists. */
RDM_API int rdm_domain_open_io_uring(int ring_fd, const rdm_domain_options *options,
                                     rdm_domain **out);

/* Opens a domain on a protection domain of libibverbs. `access`: IBV_ACCESS_* flags;
 * options->access is not used. Remote rights go to exposed regions only, unless
 * RDM_DOMAIN_SHARE_HEAP. With IBV_ACCESS_ON_DEMAND nothing is pinned, and memory beyond the budget
 * is registered, too; RDM_UNSUPPORTED if the device cannot page on demand. Close the domain before
 * the protection domain, and before a parent domain that it was opened with: while they have memory
 * regions, ibv_dealloc_pd fails with EBUSY.
 * - A key belongs to the whole region. The device checks an SGE or a remote access against the
 *   region, not against the buffer, and a key still works after its buffer was freed.
 * - Buffers of one region have one lkey, which cannot tell them apart. A buffer may have two lkeys,
 *   one after the other, if it was looked up before its whole region was registered: both are good.
 * - Memory that is not pinned is paged on demand, without being asked to, where the device reports
 *   that for RC, and for UC and UD as far as it reports anything about them.
 * - A device that is gone (EIO or ENODEV, also for its limits) is not asked again: lookups of what
 *   is not registered yet return RDM_NOT_REGISTERED. Close the domain and open the device again, as
 *   after IBV_EVENT_DEVICE_FATAL.
 * - If the kernel does not copy pinned pages at fork (see rdm_domain), the call returns
 *   RDM_UNSUPPORTED while ibv_fork_init() or RDMAV_FORK_SAFE is in force. rdma-core before 35 does
 *   not tell: there a page is registered to find out. */
struct ibv_pd;
RDM_API int rdm_domain_open_verbs(struct ibv_pd *pd, int access, const rdm_domain_options *options,
                                  rdm_domain **out);

/* Opens a domain on a CUDA context, through libcuda.so.1, which is found at run time. `context`: a
 * CUcontext, or null for the one current in this thread. Regions are host-registered
 * (cuMemHostRegister), so that copies between malloc'd buffers and the device are true DMA; keys
 * mean nothing there. Close the domain before the context is destroyed; a context that was
 * destroyed, or lost to an error, is detected and costs a status. The driver registers memory only
 * once: CUDA domains share the heap's registrations, and a program's own cudaHostRegister of
 * malloc'd memory fails because it is registered already. RDM_BUSY if the program has registered
 * part of the heap before; RDM_UNSUPPORTED if there is no driver or no device. What this changes
 * for the program: cudaMemcpyAsync copies pageable memory to a staging buffer before it returns,
 * but reads registered memory later. A program that writes to a malloc'd buffer right after the
 * call, which was correct only by chance, now sends other bytes. Wait for the stream first, or open
 * the domain with RDM_DOMAIN_NAMED_ONLY, so that memory that is not named is copied as before. In
 * such a domain, rdm_get of a buffer that shares a page with one in use returns RDM_BUSY until that
 * one is put: allocate whole pages. */
RDM_API int rdm_domain_open_cuda(void *context, const rdm_domain_options *options,
                                 rdm_domain **out);

/* Opens a domain on a UCP context of UCX (1.13 or newer), through the libucp that the process has
 * loaded. A thread of the library maps regions with ucp_mem_map, so the context must be made for
 * several threads (mt_workers_shared = 1 for ucp_init), else RDM_INVALID. A lookup's `handle` is
 * the ucp_mem_h, for ucp_request_param_t.memh or ucp_rkey_pack; it covers the whole region. UCX
 * gives every mapping the rights of its own mappings, remote ones included, to whoever gets a
 * packed key: options->access is not used. Close the domain before ucp_cleanup. UCX's caches may
 * keep registered what it unmaps until then. RDM_UNSUPPORTED if no libucp is loaded. */
struct ucp_context;
RDM_API int rdm_domain_open_ucx(struct ucp_context *context, const rdm_domain_options *options,
                                rdm_domain **out);

/* Opens a domain on a domain of libfabric (1.13 or newer). `access`: FI_SEND, FI_RECV, FI_READ,
 * FI_WRITE, FI_REMOTE_READ, FI_REMOTE_WRITE; 0 means the first four. Remote rights go to exposed
 * regions only, unless RDM_DOMAIN_SHARE_HEAP. A lookup's `handle` is the struct fid_mr:
 * fi_mr_desc(handle) is the descriptor, fi_mr_key(handle) the remote key, which may not fit `rkey`.
 * Close the domain before the fid_domain. */
struct fid_domain;
RDM_API int rdm_domain_open_ofi(struct fid_domain *domain, uint64_t access,
                                const rdm_domain_options *options, rdm_domain **out);

/* Deregisters all of the domain's regions, and the foreign memory that it keeps. RDM_BUSY: foreign
 * memory is still in use, or a pool in the domain is open (pool.h), and rdm_last_error() tells how
 * many there are; or a backend is calling; the domain stays open. RDM_INVALID: it is not open.
 * Meanwhile other threads may malloc, and look up in other domains; a concurrent lookup in this one
 * may succeed, but its key is dead. In a child of fork, a domain of the parent is forgotten without
 * a call to its backend. RDM_SYSTEM: a memory region could not be deregistered and is lost; the
 * domain is closed all the same. */
RDM_API int rdm_domain_close(rdm_domain *domain);

/* Finds the memory region that covers all of [address, address + length), which must be window
 * memory. RDM_OK sets *out; RDM_NOT_OWNED: not all of it lies in one region of the window, or some
 * of it was retired or unmapped; RDM_NOT_REGISTERED: not in this domain, or the domain is the
 * parent's of a child of fork; RDM_INVALID: no bytes, or the domain is closed. A hit takes no lock
 * and a few nanoseconds, some more in a region that the device's limits cut into pieces. A region
 * that was just acquired and is not registered yet is registered by this call. */
RDM_API int rdm_lookup(const rdm_domain *domain, const void *address, size_t length, rdm_mr *out);

/* Foreign memory: everything outside the window, such as stacks, globals, mmap and other
 * allocators, and unpinned memory in it. It is registered when first asked for and kept registered
 * for the next time, until a monitor sees it change or room is needed (least recently used first):
 *
 *                            no limit                        foreign_bytes, foreign_count
 *   left pinned (default)    kept until it changes           kept; idle ones make room, by last use
 *   LEAVE_NOTHING_PINNED     registered for each use         the same; beyond the limit
 *                                                            RDM_OUT_OF_BUDGET, or a wait
 *
 * Concurrent users of the same memory share a registration. Overlapping ranges are merged; adjacent
 * ones are not. What no monitor can watch is not kept. */

/* Finds the memory region that covers all of [address, address + length), and registers the memory
 * if need be. For memory that is registered with the window this is a lookup. RDM_OK sets *out, to
 * be returned with rdm_put; the memory stays registered until then, even if it is unmapped
 * meanwhile. Otherwise:
 * - RDM_INVALID: no bytes, a range that wraps around, one that lies partly in the window, or the
 *   domain is closed.
 * - RDM_NOT_OWNED: in the window, but not all of it in one region, or some of it was retired.
 * - RDM_NOT_REGISTERED: the domain registers this part of the window, and could not, for example
 *   because of the memlock limit; or several memory regions cover the range; or the domain is the
 *   parent's of a child of fork.
 * - RDM_OUT_OF_BUDGET: a limit is reached and everything registered is in use.
 * - RDM_UNSUPPORTED: longer than the device's largest memory region (see rdm_pieces); or foreign
 *   memory in a domain of RDM_DOMAIN_CALLERS_ONLY.
 * - RDM_BUSY: the device registers memory only once (RDM_BACKEND_OVERLAPS), and some of this is in
 *   use with another length.
 * - RDM_SYSTEM: the memory cannot be pinned, for example because it is not mapped, or not writable
 *   for a domain that writes.
 * A hit takes no lock and about ten nanoseconds. Not inside malloc or a signal handler. A signal
 * handler that unmaps registered memory must not interrupt this call or rdm_put. */
RDM_API int rdm_get(rdm_domain *domain, const void *address, size_t length, rdm_mr *out);

/* Returns what rdm_get gave, by its value, on any thread. Does nothing for memory that is
 * registered with the window, nor for a domain of the parent in a child of fork. RDM_INVALID: it is
 * not in use, for example because it was put already, or the domain is closed. */
RDM_API int rdm_put(rdm_domain *domain, const rdm_mr *mr);

/* Reports a change of foreign memory that no monitor can see, such as another process truncating a
 * file that is mapped here. Registrations of the range, in any domain, are not used again. */
RDM_API void rdm_invalidate(const void *address, size_t length);

/* The monitor in force: "userfaultfd", "interposed" or "none"; unless `why` is null, *why is a
 * sentence that says why it is this one. Both strings stay valid. RDMALLOC_MONITOR chooses. */
RDM_API const char *rdm_monitor(const char **why);

/* A message in pieces, each registered when its turn comes. So a message may be longer than all
 * that may be registered, and the first bytes travel while the last ones are being registered. Room
 * for one piece is enough for progress. For one thread at a time; owns no memory. */
typedef struct {
  rdm_domain *domain;
  char *next, *end;      /* what has not been handed out */
  size_t piece_length;   /* bytes; becomes shorter if there is no room for so much */
  unsigned most, held;   /* pieces that may be in use, and that are */
} rdm_pieces;

typedef struct {
  char *address;
  size_t length; /* bytes; 0: there is no more */
  rdm_mr mr;
} rdm_piece;

/* Begins a message. `piece_length`: bytes, 0 for 1 MiB; rounded up to pages. Pieces end at
 * multiples of it. `most`: pieces that may be in use at a time, 0 for 2. RDM_INVALID. Registers
 * nothing. */
RDM_API int rdm_pieces_begin(rdm_domain *domain, const void *address, size_t length,
                             size_t piece_length, unsigned most, rdm_pieces *out);
/* The next piece. RDM_OK, with length 0 at the end; RDM_BUSY: finish one first, because `most` are
 * in use, or there is no room for another; otherwise the statuses of rdm_get. */
RDM_API int rdm_pieces_next(rdm_pieces *pieces, rdm_piece *out);
/* Reports that a piece was transferred. In any order. RDM_INVALID: it is not in use. */
RDM_API int rdm_pieces_done(rdm_pieces *pieces, const rdm_piece *piece);

/* Statistics. The struct, the JSON keys and the text report are all made from this list. The names
 * give the units: bytes, ns (nanoseconds), otherwise a count. peak: the highest since the process
 * started. */
#define RDM_STATS_LIST(X)                                                                         \
  X(live_bytes, "in extents that hold live objects, their slack included")                        \
  X(peak_live_bytes, "highest live_bytes, looked at when the heap grows and when asked; what "     \
                     "arenas keep for reuse counts there")                                        \
  X(allocated_bytes, "in live objects, each counted at its size class")                           \
  X(held_bytes, "in regions, live or free, on pages that came or not yet")                        \
  X(peak_held_bytes, "highest held_bytes")                                                        \
  X(pinned_bytes, "in regions locked by this process, not inherited by fork; resident or not yet") \
  X(peak_pinned_bytes, "highest pinned_bytes")                                                    \
  X(overflow_bytes, "in regions beyond the budget: not pinned, in no domain")                     \
  X(sparse_bytes, "in regions of large zeroed requests: faulted in as touched, not pinned")       \
  X(huge_bytes, "in regions that are backed by huge pages")                                       \
  X(regions, "regions that have pages")                                                           \
  X(free_extents, "separate runs of free pages")                                                  \
  X(largest_free_bytes, "longest run of free pages")                                              \
  X(acquire_ns, "spent acquiring regions: gathering, placing, locking")                           \
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
  X(foreign_invalidations, "foreign registrations given up because the memory changed")           \
  X(foreign_regions, "foreign registrations there are now")                                       \
  X(foreign_bytes, "in these, once for each domain")                                              \
  X(budget_bytes, "most that may be pinned")                                                      \
  X(memory_cap_bytes, "most that may be pinned, or held if RDMALLOC_MEMORY_CAP is set")            \
  X(window_bytes, "address range reserved")                                                       \
  X(metadata_bytes, "address space mapped for bookkeeping, outside the window, not pinned")       \
  X(sealed, "regions the kernel refuses to unmap")                                                \
  X(mapped_vmas, "kernel mappings that the window is split into")                                 \
  X(forked, "1 in a child of fork: what it inherited is not pinned")                               \
  X(resident_bytes, "in regions, on pages that came: by touch, or all at once")                    \
  X(gathered_bytes, "free pages moved under fresh addresses, and blocks that grew by moving, ever")\
  X(retired_bytes, "addresses that lost their pages by it: never used again")                      \
  X(cached_bytes, "in blocks that the processors' caches keep, free and not live")

/* Which limit determines budget_bytes. */
enum { RDM_LIMITED_BY_CAP = 0, RDM_LIMITED_BY_MEMLOCK, RDM_LIMITED_BY_AVAILABLE,
       RDM_LIMITED_BY_NODE };

typedef struct {
#define RDM_STATS_FIELD_(name, meaning) uint64_t name; /* meaning */
  RDM_STATS_LIST(RDM_STATS_FIELD_)
#undef RDM_STATS_FIELD_
  uint64_t budget_limited_by; /* RDM_LIMITED_BY_* */
} rdm_stats;

/* Fills the first `sizeof_out` bytes of the caller's struct. Pass sizeof *out, so that programs
 * built against an older, shorter struct stay correct; bytes beyond what this library knows become
 * 0. RDM_INVALID for null or 0. Reads /proc/self/maps: tens of microseconds. Not
 * async-signal-safe. */
RDM_API int rdm_stats_get(rdm_stats *out, size_t sizeof_out);

/* Writes the statistics and the phases as one JSON object to a file descriptor. RDM_SYSTEM if
 * writing fails. */
RDM_API int rdm_stats_json(int fd);

/* Puts the whole process into the phase of this name, until the next call; null: into none. The
 * JSON above and the report have each phase's highest live, held, pinned and overflow bytes, how
 * often it was entered and how long it took; `rdmalloc stats PID` shows them while the process
 * runs. Live bytes here are those of extents, and include what arenas keep for reuse. Names are cut
 * to fewer than 40 characters. There are 40 phases; all that come later count as one, "(others)". A
 * phase that is entered again continues. A child of fork starts in none. Takes a lock and some
 * stores: fit for every time step, not for every message. Not inside malloc or a signal handler. */
RDM_API void rdm_phase(const char *name);

#ifdef __cplusplus
}
#endif

#endif
