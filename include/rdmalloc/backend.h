/* A backend: how memory is registered with one kind of device. Write one outside this tree, and
 * open domains on it with rdm_domain_open(). C11 and C++. */
#ifndef RDMALLOC_BACKEND_H
#define RDMALLOC_BACKEND_H

#include <rdmalloc/rdmalloc.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Abilities, rdm_backend_limits.abilities. */
enum {
  /* register_memory() and deregister_memory() make plain system calls only: they do not malloc,
   * take locks that a thread in malloc may hold, print or throw. Then regions are registered inside
   * malloc, as they are acquired; without it no operation is ever called there. */
  RDM_BACKEND_IN_MALLOC = 1,
  /* Memory that is not pinned can be registered, and stays right when its pages change. */
  RDM_BACKEND_ON_DEMAND = 2,
  /* This device registers memory once only (RDM_BACKEND_OVERLAPS). Else, while all of a large region
   * is still to be registered, a part of it is for a lookup that comes then, and stays so until the
   * region is deregistered. */
  RDM_BACKEND_ONCE = 4
};

/* What the kernel charges for a registration, besides mlock's own account. */
enum {
  RDM_CHARGES_NOTHING = 0,
  RDM_CHARGES_PROCESS, /* the process's pinned memory (VmPin), against RLIMIT_MEMLOCK */
  RDM_CHARGES_USER     /* the user's, across processes, and VmPin shows it */
};

/* Zero means no limit. */
typedef struct {
  size_t max_length; /* bytes of one memory region; larger regions are registered in pieces */
  size_t max_count;  /* memory regions of one domain; what is beyond is not registered */
  size_t alignment;  /* bytes: of base and length, a power of two; a page always is */
  int charges;       /* RDM_CHARGES_* */
  unsigned abilities;
} rdm_backend_limits;

/* What to register: a region, a piece of one, or foreign memory. */
typedef struct {
  void *base;
  size_t length;    /* bytes */
  size_t page_size; /* bytes: 4096, or 2 MiB for hugetlb; transparent huge pages count as 4096 */
  unsigned access;  /* RDM_LOCAL_WRITE, ...: of these, not more */
  int pinned;       /* 1: populated and mlocked (in a child of fork: by its parent, not by it);
                       0: neither, only with RDM_BACKEND_ON_DEMAND, or foreign memory */
  int exposed;      /* 1: an exposed region */
  int node;         /* NUMA node; -1: not known */
  int foreign;      /* 1: not a region but memory of the program's, which registering has to pin, or
                       to page on demand; `pinned` is 0 whatever it is */
} rdm_backend_request;

/* A registration that was made. Two of the same memory that exist at the same time differ in some
 * field, so that rdm_put knows which is meant. */
typedef struct {
  uint32_t lkey, rkey;
  void *handle;
} rdm_backend_key;

/* What register_memory may return besides. */
enum {
  RDM_BACKEND_LATER = 100,   /* not now, or not from this thread; a lookup tries again. Also from
                                deregister_memory of foreign memory: it is asked again, by others. */
  RDM_BACKEND_OVERLAPS = 101, /* some of it is registered already, and this device registers memory
                                 once only. Idle registrations of foreign memory that overlap it are
                                 given up, and it is asked again. */
  RDM_BACKEND_NEVER = 102     /* the caller is told RDM_SYSTEM; it is not tried again */
};

/* When a region that was refused is tried again, never by a lookup: after RDM_OUT_OF_BUDGET when
 * less is registered or the memlock limit was raised; after RDM_UNSUPPORTED, RDM_INVALID and
 * RDM_BACKEND_NEVER when the limit was raised or a domain was closed; after any other status then,
 * too, and a few times besides, at growing intervals. */

/* The operations. May be called from several threads at a time, for different memory; `ctx` is what
 * rdm_domain_open was given. All but closed() must be set. They return RDM_OK or a reason, and do
 * not open or close domains (RDM_BUSY). */
struct rdm_backend {
  size_t size;      /* sizeof(rdm_backend), so that it may grow */
  const char *name; /* a word, static */

  /* Called once, first. `*out` comes zeroed. A failure makes rdm_domain_open fail. */
  int (*limits)(void *ctx, rdm_backend_limits *out);

  /* Sets *out on RDM_OK. On failure says why in `why`, a sentence cut to `why_size` bytes. */
  int (*register_memory)(void *ctx, const rdm_backend_request *request, rdm_backend_key *out,
                         char *why, size_t why_size);

  /* Never in a child of fork for a registration of its parent's. */
  int (*deregister_memory)(void *ctx, const rdm_backend_key *key);

  /* Last of all: the domain is gone. `forked`: in a child, where nothing was deregistered. May be
   * null. Not called when rdm_domain_open failed. */
  void (*closed)(void *ctx, int forked);
};

#ifdef __cplusplus
}
#endif

#endif
