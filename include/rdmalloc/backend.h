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
   * take locks that a thread in malloc may hold, print or throw. Regions are then registered inside
   * malloc, as they are acquired. Without this ability no operation is ever called there. */
  RDM_BACKEND_IN_MALLOC = 1,
  /* Memory that is not pinned can be registered; its registration follows when its pages change. */
  RDM_BACKEND_ON_DEMAND = 2,
  /* This device registers memory only once (RDM_BACKEND_OVERLAPS). Without this ability, a lookup
   * in a large region that is not registered yet may register a part of it, which stays registered
   * until the region is deregistered. */
  RDM_BACKEND_ONCE = 4,
  /* Foreign memory stays pinned, and charged, for up to a second after deregister_memory() has
   * returned. A get that this device refuses meanwhile for want of room waits for it. */
  RDM_BACKEND_UNPINS_LATE = 8
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
  size_t max_count;  /* memory regions of one domain; more are not registered */
  size_t alignment;  /* bytes: of base and length, a power of two; a page always is */
  int charges;       /* RDM_CHARGES_* */
  unsigned abilities;
} rdm_backend_limits;

/* What to register: a region, a piece of one, or foreign memory. */
typedef struct {
  void *base;
  size_t length;    /* bytes */
  size_t page_size; /* bytes: a base page, as for transparent huge pages, or a hugetlb page */
  unsigned access;  /* RDM_LOCAL_WRITE, ...: give these rights and no others */
  int pinned;       /* 1: populated and mlocked (in a child of fork: by its parent, not by it);
                       0: neither; only with RDM_BACKEND_ON_DEMAND, or for foreign memory */
  int exposed;      /* 1: an exposed region */
  int node;         /* NUMA node; -1: not known */
  int foreign;      /* 1: not a region but the program's own memory, which registering must pin or
                       page on demand; `pinned` is then 0 */
} rdm_backend_request;

/* A registration that was made. Two registrations of the same memory that exist at the same time
 * differ in some field, so that rdm_put can tell them apart. */
typedef struct {
  uint32_t lkey, rkey;
  void *handle;
} rdm_backend_key;

/* What register_memory may also return. */
enum {
  RDM_BACKEND_LATER = 100,   /* not now, or not from this thread; a lookup tries again. Also from
                                deregister_memory of foreign memory: another thread asks again. */
  RDM_BACKEND_OVERLAPS = 101, /* some of it is registered already, and this device registers memory
                                 only once. Idle registrations of foreign memory that overlap it are
                                 dropped, and the backend is asked again. */
  RDM_BACKEND_NEVER = 102     /* the caller gets RDM_SYSTEM; it is not tried again */
};

/* A region that was refused is tried again, but never by a lookup: after RDM_OUT_OF_BUDGET, once
 * less is registered or the memlock limit was raised; after RDM_UNSUPPORTED, RDM_INVALID and
 * RDM_BACKEND_NEVER, once the limit was raised or a domain was closed; after any other status in
 * all of these cases, and also a few times at growing intervals. */

/* The operations. They may be called from several threads at a time, for different memory. `ctx` is
 * the pointer that rdm_domain_open was given. All but closed() must be set. They return RDM_OK or a
 * reason, and must not open or close domains (RDM_BUSY). */
struct rdm_backend {
  size_t size;      /* sizeof(rdm_backend), so that it may grow */
  const char *name; /* a word, static */

  /* Called once, before all others. `*out` is zeroed. A failure makes rdm_domain_open fail. */
  int (*limits)(void *ctx, rdm_backend_limits *out);

  /* Sets *out on RDM_OK. On failure writes the reason to `why`: a sentence, cut to `why_size`
   * bytes. */
  int (*register_memory)(void *ctx, const rdm_backend_request *request, rdm_backend_key *out,
                         char *why, size_t why_size);

  /* Never called in a child of fork for a registration of its parent. */
  int (*deregister_memory)(void *ctx, const rdm_backend_key *key);

  /* Called last: the domain is gone. `forked`: 1 in a child, where nothing was deregistered. May be
   * null. Not called if rdm_domain_open failed. */
  void (*closed)(void *ctx, int forked);
};

#ifdef __cplusplus
}
#endif

#endif
