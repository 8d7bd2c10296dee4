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
 * from the window. `flags` must be 0. Null with errno ENOMEM when the memory cap is reached (or the
 * cap, under RDMALLOC_STRICT), EINVAL for a bad argument. Free it with rdm_free() or free(). */
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
} rdm_region;

/* The region with this index: 0, 1, ... in the order they were acquired. RDM_INVALID past the last
 * one. `*out` is set only on RDM_OK. Lock-free. */
RDM_API int rdm_region_get(size_t index, rdm_region *out);

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
  X(registrations, "memory regions registered with devices")                                      \
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
