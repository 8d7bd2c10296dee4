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
  RDM_SYSTEM,         /* a system call, or the device, failed; errno or rdm_last_error() tells */
  RDM_BUSY,           /* something is in use that must be given back first */
  RDM_AGAIN,          /* there is nothing to be had now; later there may be */
  RDM_PEER_DIED       /* another process that this needs is gone */
};

/* A sentence for one of the codes above; "unknown status" for any other number. Static storage. */
RDM_API const char *rdm_strerror(int status);

/* The sentence that goes with the last status other than RDM_OK that this thread got from a function
 * of this header, of pool.h, ofi.h or remote.h (shm.h has its own): the cause, and what to do. A hit of
 * rdm_lookup costs nothing for it, a miss a word. Empty before the first failure; lives until the
 * thread's next. From any thread; a child of fork begins with its parent's. */
RDM_API const char *rdm_last_error(void);

/* 1 when the address lies in the window and was not retired, else 0. Wait-free, about a nanosecond. In
 * the window does not say live, nor pinned. */
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
  size_t page_size;   /* bytes; what was got, a tenth of a second ago at most: 4096 or 2 MiB */
  int kind;           /* RDM_REGION_* */
  int node;           /* NUMA node of the thread that it was acquired for */
  int locked;         /* 1: mlocked, each page from when it comes; 0 when inherited by fork */
  int sealed;         /* 1: the kernel refuses to unmap it */
  int exposed;        /* 1: holds what was asked for with RDM_EXPOSED, and nothing else */
} rdm_region;

/* The region with this index: 0, 1, ... of those that have pages; parts of them may have been retired.
 * An index may name another region after the heap has grown. RDM_INVALID past the last one. `*out` is set only on RDM_OK. Lock-free. */
RDM_API int rdm_region_get(size_t index, rdm_region *out);

/* Domains: where memory is registered. A domain registers every pinned region once, as a whole, and
 * keeps it registered until it is closed; so the key of any malloc'd buffer is found in an array.
 *
 * Several domains may be open; each registers each region once, and the kernel charges each of them
 * against RLIMIT_MEMLOCK. A region acquired while a domain is open is registered at once where the
 * backend makes plain system calls only, else by a thread of ours, or by the first lookup if that
 * comes earlier. A lookup in a large region that is still to be registered has a part of it registered
 * for itself, which costs little time; its key stays good, but later lookups answer the region's. A
 * child of fork inherits no registration: its lookups in its parent's domains say
 * RDM_NOT_REGISTERED; it may open its own.
 *
 * Kernels before 5.12 do not copy pinned pages at fork, unless their distribution brought that to
 * them: while a child lives, whichever of the two first writes to a registered page takes it away
 * from the parent's registration. There opening the first domain that pins says so in one line on
 * standard error; so does `rdmalloc doctor`. posix_spawn and vfork are not concerned, nor is a domain
 * of RDM_DOMAIN_RELEASE_AT_FORK. */
typedef struct rdm_domain rdm_domain;

/* The memory region of a domain that covers a buffer. */
typedef struct {
  void *base;
  size_t length;   /* bytes */
  uint32_t lkey;   /* io_uring: the buffer's index in the ring */
  uint32_t rkey;
  void *handle;    /* verbs: the struct ibv_mr, not to be deregistered; CUDA: where the device sees
                      `base` */
} rdm_mr;

/* Rights, with the values of verbs' IBV_ACCESS_*. Reading locally is always allowed. */
enum { RDM_LOCAL_WRITE = 1, RDM_REMOTE_WRITE = 2, RDM_REMOTE_READ = 4, RDM_REMOTE_ATOMIC = 8 };

/* rdm_domain_options.flags. */
enum {
  RDM_DOMAIN_SHARE_HEAP = 1, /* give remote rights to all of the heap, not to exposed regions only */
  RDM_DOMAIN_PARTIAL = 2,    /* open even if some region cannot be registered: lookups tell which */
  RDM_DOMAIN_LEAVE_NOTHING_PINNED = 4, /* foreign memory is registered while somebody has it, only */
  RDM_DOMAIN_DO_NOT_WAIT = 8, /* RDM_BUSY, rather than wait, while another thread opens or closes a
                                domain: for a caller that may hold a lock that some driver needs */
  RDM_DOMAIN_WHEN_ASKED = 16, /* a region is registered at the first lookup in it, and not before:
                                for who cannot know whether the domain will be used at all */
  RDM_DOMAIN_CALLERS_ONLY = 32, /* the backend is called in threads that look up in this domain, or
                                close it, and in no other: for a device's library that takes no locks,
                                where the caller keeps such threads apart. A region is registered at
                                its first lookup; rdm_get of foreign memory is RDM_UNSUPPORTED. Not
                                with a backend of RDM_BACKEND_IN_MALLOC (RDM_INVALID), nor pools */
  RDM_DOMAIN_RELEASE_AT_FORK = 64, /* fork() deregisters what the domain has first, so that the kernel
                                does not copy all of it for the child (posix_spawn and vfork copy
                                nothing and leave it alone). Whoever forks sees to it that no device
                                uses the heap meanwhile; keys from before the fork are dead after it,
                                and a region is registered anew at its next lookup. Foreign memory that
                                somebody has (rdm_get) stays registered. No pools (RDM_INVALID) */
  RDM_DOMAIN_NAMED_ONLY = 128 /* nothing is registered but what the program names: what it asks rdm_get
                                for, malloc'd or not, pools in this domain, which take exposed memory,
                                and exposed regions. Lookups in the rest of the heap are
                                RDM_NOT_REGISTERED, and a malloc'd buffer stays registered, with the
                                whole pages that it lies on, until its last rdm_put: for a device whose
                                library treats registered memory in another way than all other, as
                                CUDA does */
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
  uint64_t foreign_bytes;   /* most of foreign memory to have registered; 0: RDMALLOC_FOREIGN_BYTES,
                               UINT64_MAX: no limit but the device's and the memlock limit */
  unsigned foreign_count;   /* most registrations of it; 0: RDMALLOC_FOREIGN_COUNT */
  unsigned foreign_wait_ms; /* how long rdm_get waits when all that is registered is in use;
                               0: not at all */
} rdm_domain_options;

/* A backend outside the tree: see backend.h. */
typedef struct rdm_backend rdm_backend;

/* Opens a domain and registers every region there is. When one fails, those before it are
 * deregistered and the reason is returned: RDM_OUT_OF_BUDGET (the memlock limit), RDM_UNSUPPORTED,
 * RDM_SYSTEM, RDM_INVALID, RDM_BUSY (as many are open as can be, or a backend is calling). `*out` is set only on RDM_OK. `ops` is copied; `ctx` is the backend's and
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
 * cannot page on demand. Close the domain before the protection domain, and before a parent domain
 * that it was opened with: ibv_dealloc_pd of one that has memory regions is EBUSY.
 * - A key is the whole region's: the device checks an SGE or a remote access against the region, not
 *   against the buffer, and a key serves after its buffer was freed.
 * - Buffers of one region have one lkey: it cannot tell them apart. One buffer may have two, one after
 *   the other, where it was looked up before all of its region was registered: both are good.
 * - Memory that is not pinned is paged on demand by itself where the device reports that for RC, and
 *   for UC and UD as far as it reports anything of these.
 * - A device that is gone (EIO or ENODEV, for its limits too) is not asked again: lookups of what is
 *   not registered yet are RDM_NOT_REGISTERED; close the domain and open the device anew, as after
 *   IBV_EVENT_DEVICE_FATAL.
 * - Where the kernel does not copy pinned pages at fork (see rdm_domain), it is RDM_UNSUPPORTED with
 *   ibv_fork_init() or RDMAV_FORK_SAFE in force, of which rdma-core before 35 does not tell: there a
 *   page is registered to find out. */
struct ibv_pd;
RDM_API int rdm_domain_open_verbs(struct ibv_pd *pd, int access, const rdm_domain_options *options,
                                  rdm_domain **out);

/* A CUDA context, through libcuda.so.1, which is found at run time. `context`: a CUcontext, or null
 * for the one that is current in this thread. Regions are host-registered (cuMemHostRegister), so
 * that copies between malloc'd buffers and the device are true DMA; a key means nothing there. Close
 * the domain before the context is destroyed; one that was destroyed, or lost to an error, is noticed
 * and costs a status. The driver registers memory once: CUDA domains share the heap's registrations,
 * and a program's own cudaHostRegister of malloc'd memory is told that it is registered already.
 * RDM_UNSUPPORTED where there is no driver or no device.
 * What this changes for the program: cudaMemcpyAsync copies pageable memory to a buffer of the driver's
 * before it returns, and reads registered memory later. A program that writes to a malloc'd buffer at
 * once after the call, which was right by chance, now sends other bytes: wait for the stream first; or
 * open the domain with RDM_DOMAIN_NAMED_ONLY, and all memory that is not named is copied as before. There
 * a buffer that shares a page with one that somebody has is RDM_SYSTEM meanwhile: take whole pages. */
RDM_API int rdm_domain_open_cuda(void *context, const rdm_domain_options *options,
                                 rdm_domain **out);

/* A UCP context of UCX (1.13 or newer), through the libucp that the process has loaded. Regions are
 * mapped with ucp_mem_map, by a thread of ours, and so the context must be made for several threads:
 * mt_workers_shared = 1 for ucp_init, else RDM_INVALID. `handle` of what is looked up is the ucp_mem_h,
 * to be passed in ucp_request_param_t.memh or to ucp_rkey_pack; it covers all of the region. UCX gives
 * every mapping the rights it gives its own, remote ones included, to whoever gets a packed key of it:
 * options->access is not used. Close the domain before ucp_cleanup; what it unmaps, UCX's own caches
 * may keep registered until then. RDM_UNSUPPORTED where no libucp is loaded. */
struct ucp_context;
RDM_API int rdm_domain_open_ucx(struct ucp_context *context, const rdm_domain_options *options,
                                rdm_domain **out);

/* A domain of libfabric (1.13 or newer). `access`: FI_SEND, FI_RECV, FI_READ, FI_WRITE, FI_REMOTE_READ,
 * FI_REMOTE_WRITE; 0 means the first four. Remote rights go to exposed regions only, unless
 * RDM_DOMAIN_SHARE_HEAP. `handle` of what is looked up is the struct fid_mr: fi_mr_desc(handle) is the
 * descriptor, fi_mr_key(handle) the remote key, which need not fit `rkey`. Close the domain before the
 * fid_domain. */
struct fid_domain;
RDM_API int rdm_domain_open_ofi(struct fid_domain *domain, uint64_t access,
                                const rdm_domain_options *options, rdm_domain **out);

/* Deregisters all of the domain's regions, and what it keeps of foreign memory. RDM_BUSY: some foreign
 * memory is still referenced, or a pool in it is open (pool.h); the domain stays open and
 * rdm_last_error() tells how many. Other threads may malloc, and look up in other domains;
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

/* Foreign memory: all that is not in the window, such as stacks, globals, mmap and other allocators;
 * and what the window holds unpinned. It is registered when it is first asked for, and kept
 * registered for the next time, least recently used first out, until a monitor sees it change:
 *
 *                            no limit                        foreign_bytes, foreign_count
 *   left pinned (default)    kept until it changes           kept; idle ones make room, by last use
 *   LEAVE_NOTHING_PINNED     registered for each use         the same; beyond the limit
 *                                                            RDM_OUT_OF_BUDGET, or a wait
 *
 * Users of the same memory at the same time share a registration. Ranges that overlap become one;
 * such as only touch do not. What no monitor can watch is not kept. */

/* The memory region that covers all of [address, address + length): a lookup for memory that is
 * registered with the window, else foreign memory, registered now unless it is already. RDM_OK, and
 * *out, to be given back with rdm_put. It stays registered until then, even if the memory is
 * unmapped meanwhile. RDM_INVALID: no bytes, a range that wraps around, or half in the window;
 * RDM_OUT_OF_BUDGET: a limit is reached and all that is registered is in use;
 * RDM_UNSUPPORTED: longer than the device's largest memory region (see rdm_pieces); RDM_SYSTEM: the
 * memory cannot be pinned, as when it is not mapped, or not writable for a domain that writes.
 * A hit takes no lock and some ten nanoseconds. Not inside malloc or a signal handler; and a handler
 * that unmaps registered memory must not interrupt this call or rdm_put. */
RDM_API int rdm_get(rdm_domain *domain, const void *address, size_t length, rdm_mr *out);

/* Gives back what rdm_get returned, by its value, on any thread. Nothing for memory of the window.
 * RDM_INVALID: it is not out, as when given back twice. */
RDM_API int rdm_put(rdm_domain *domain, const rdm_mr *mr);

/* For changes of foreign memory that no monitor can see, such as another process truncating a file
 * that is mapped here: what is registered of the range in any domain is not used again. */
RDM_API void rdm_invalidate(const void *address, size_t length);

/* The monitor in force: "userfaultfd", "interposed" or "none"; and, unless `why` is null, a sentence
 * that says why it is this one. Static storage, or the library's. RDMALLOC_MONITOR chooses. */
RDM_API const char *rdm_monitor(const char **why);

/* A message in pieces, each registered when its turn comes: so that it may be longer than all that may
 * be registered, and so that the first bytes travel while the last are being registered. One piece
 * is enough for progress. For one thread at a time; holds no memory of its own. */
typedef struct {
  rdm_domain *domain;
  char *next, *end;      /* what has not been handed out */
  size_t piece_length;   /* bytes; becomes shorter when there is no room for so much */
  unsigned most, held;   /* pieces that may be out, and that are */
} rdm_pieces;

typedef struct {
  char *address;
  size_t length; /* bytes; 0: there is no more */
  rdm_mr mr;
} rdm_piece;

/* `piece_length`: bytes, 0 for 1 MiB; rounded up to pages. Pieces end at multiples of it. `most`:
 * pieces that may be out at a time, 0 for 2. RDM_INVALID. Registers nothing. */
RDM_API int rdm_pieces_begin(rdm_domain *domain, const void *address, size_t length,
                             size_t piece_length, unsigned most, rdm_pieces *out);
/* The next piece. RDM_OK, with length 0 at the end; RDM_BUSY: give one back first, because `most` are
 * out, or there is no room for another; else rdm_get's reasons. */
RDM_API int rdm_pieces_next(rdm_pieces *pieces, rdm_piece *out);
/* A piece was transferred. In any order. */
RDM_API int rdm_pieces_done(rdm_pieces *pieces, const rdm_piece *piece);

/* Statistics: one list, from which come the struct, the JSON keys and the text report. Units are in
 * the names: bytes, ns (nanoseconds), else a count. peak: the highest since the process started. */
#define RDM_STATS_LIST(X)                                                                         \
  X(live_bytes, "in extents that hold live objects, their slack included")                        \
  X(peak_live_bytes, "highest live_bytes, looked at when the heap grows and when asked; what "     \
                     "arenas keep for reuse counts there")                                        \
  X(allocated_bytes, "in live objects, each counted at its size class")                           \
  X(held_bytes, "in regions, live or free, on pages that came or not yet; never shrinks")         \
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

/* Which limit budget_bytes comes from. */
enum { RDM_LIMITED_BY_CAP = 0, RDM_LIMITED_BY_MEMLOCK, RDM_LIMITED_BY_AVAILABLE,
       RDM_LIMITED_BY_NODE };

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

/* Writes the same as one JSON object to a file descriptor, and what the phases needed.
 * RDM_SYSTEM when writing fails. */
RDM_API int rdm_stats_json(int fd);

/* From here on the whole process is in the phase of this name, until the next call; null: in none.
 * The highest live, held, pinned and overflow bytes of each phase, how often it was entered and how
 * long it took, are in the JSON above and in the report, and `rdmalloc stats PID` shows them while the
 * process runs. Live bytes are those of extents here, what arenas keep for reuse included. A name of
 * 40 characters or more is cut; there are 40 phases, and all that come later are one, "(others)". A
 * phase that is entered again goes on. A child of fork begins in none. A lock and some stores: fit for
 * every time step, not for every message. Not inside malloc or a signal handler. */
RDM_API void rdm_phase(const char *name);

#ifdef __cplusplus
}
#endif

#endif
