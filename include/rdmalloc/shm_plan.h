/* The plan of a shared-memory segment through which processes of one machine pass messages (shm.h):
 * what lies in it, and its exact size in bytes. This is pure arithmetic: any number of processes,
 * from any thread, and in a child of fork. C11 and C++.
 *
 * Every ordered pair of processes has a FIFO and a circular buffer: a wrapper (where its parts
 * are), a queue, a head (the sender's) and a tail (the receiver's). The rows and sizes are those of
 * Eugene Loh's RFC to Open MPI, "Fragmented sm Allocations" (January 2009). In
 * lib/librdmalloc-shm.so. */
#ifndef RDMALLOC_SHM_PLAN_H
#define RDMALLOC_SHM_PLAN_H

#include <rdmalloc/rdmalloc.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How the parts of the circular buffers lie. */
enum {
  RDM_SHM_AGGREGATED = 0, /* one allocation per process: FIFOs; queues; heads and tails; wrappers */
  RDM_SHM_MPSC,      /* no pairs: per process one inbox for all senders, and a few fast boxes that
                        senders claim; memory grows with the number of processes, not its square */
  RDM_SHM_CACHELINE, /* wrapper, queue with tail, and head: an allocation each, aligned to lines */
  RDM_SHM_PAGE       /* the same, aligned to pages */
};

/* The defaults, for which 0 stands in rdm_shm_plan_options. A page's is the machine's. */
enum {
  RDM_SHM_QUEUE_ENTRIES = 128,
  RDM_SHM_CACHELINE_SIZE = 128,
  RDM_SHM_EAGER_LIMIT = 4096,
  RDM_SHM_CHUNK_SIZE = 32768,
  RDM_SHM_EAGER_FRAGMENTS = 2,      /* for each process */
  RDM_SHM_EAGER_FRAGMENTS_MPSC = 3, /* in total */
  RDM_SHM_MAX_FRAGMENTS = 8,
  RDM_SHM_BOXES = 8,
  RDM_SHM_BOX_SIZE = 512
};

/* rdm_shm_plan_options.flags. */
enum {
  RDM_SHM_MULTITHREADED = 1,   /* several threads of a process send and receive: in the aggregated
                                  layout each head and tail is on a line of its own */
  RDM_SHM_EAGER_WITH_HEADER = 2 /* the eager limit counts the fragment's header */
};

/* For the defaults, zero all but `size` and `procs`. */
typedef struct {
  size_t size;            /* sizeof(rdm_shm_plan_options), so that it may grow */
  unsigned procs;         /* 1 to 65,536 */
  unsigned layout;        /* RDM_SHM_PAGE, ... */
  unsigned flags;         /* RDM_SHM_MULTITHREADED, ... */
  unsigned queue_entries; /* of a circular buffer; a power of two, 2 to 65,536 */
  size_t page_size;       /* a power of two, 4 KiB to 1 GiB */
  size_t cacheline;       /* a power of two, 64 to 4,096 */
  size_t eager_limit;     /* bytes of a message in an eager fragment, up to 1 GiB */
  size_t chunk_size;      /* bytes of a message in a max fragment, up to 1 GiB */
  unsigned eager_fragments; /* at least so many for each process, up to 1,048,576 */
  unsigned max_fragments;   /* for each process, up to 65,536; mpsc has none */
  unsigned boxes;           /* mpsc: at most so many fast boxes for each receiver, up to 1,024 */
  size_t box_size;          /* mpsc: bytes of a fast box's slots, a power of two, to 1 MiB; at least
                               two cache lines, which are the default if that is more */
  char *error;            /* receives a sentence that says why there is no plan; may be null */
  size_t error_size;      /* bytes at `error` */
} rdm_shm_plan_options;

/* Bytes by purpose; they add up to `bytes`. Each includes the header and the alignment of separate
 * allocations. */
typedef struct {
  size_t size;         /* sizeof(rdm_shm_plan), set by the caller, so that it may grow */
  uint64_t bytes;      /* all of the segment */
  uint64_t wrappers;
  uint64_t queues;     /* with page and cacheline: and tails */
  uint64_t heads;      /* with aggregated: and tails */
  uint64_t fifos;
  uint64_t eager_lists; /* free lists of eager fragments */
  uint64_t max_lists;   /* free lists of max fragments */
  uint64_t inboxes;
  uint64_t boxes;
  uint64_t control;    /* the segment's header, and a record for each process */
  uint64_t padding;    /* each process's part begins on a page and can be placed on a node */
} rdm_shm_plan;

/* Computes a plan. RDM_OK sets *out; RDM_INVALID: an option is out of range, or the segment would
 * be longer than a file can be; options->error says which. */
RDM_API int rdm_shm_plan_get(const rdm_shm_plan_options *options, rdm_shm_plan *out);

#ifdef __cplusplus
}
#endif

#endif
