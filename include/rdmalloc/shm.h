/* A segment of shared memory between the processes (ranks) of one node, and a channel of messages
 * over it: for MPI libraries and others that bring their own way to start ranks. C11 and C++. Link
 * with librdmalloc-shm; it needs no other part of rdmalloc, and works under any malloc.
 *
 * A segment is as large as its plan (shm_plan.h) to the byte. One rank creates it, the others attach
 * to it by its name, all of them commit, and the name is gone: nothing stays in /dev/shm. When one
 * rank fails, or dies, all others are told. The layouts are those of an Open MPI RFC of 2009
 * (fragmented sm allocations) and, as RDM_SHM_MPSC, what came after it there.
 *
 * A segment may be used by several threads, each function from any of them; sending to one peer from
 * several threads at a time takes RDM_SHM_MULTITHREADED in the plan's flags. A child of fork must
 * not use its parent's segments; it may attach to segments of its own. Nothing here may be called
 * from a signal handler or from inside malloc. */
#ifndef RDMALLOC_SHM_H
#define RDMALLOC_SHM_H

#include <rdmalloc/rdmalloc.h>
#include <rdmalloc/shm_plan.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rdm_shm rdm_shm;

/* Zero everything but `size`, or pass null, for the defaults. */
typedef struct {
  size_t size;         /* sizeof(rdm_shm_options), so that it may grow */
  unsigned timeout_ms; /* how long to wait for the other ranks when attaching and committing;
                          0: 30 s */
  unsigned unbound;    /* 1: leave it to first touch on which NUMA node this rank's part lies; 0:
                          bind it to the node of the calling thread (not done where there is one) */
  char *error;         /* where to say why it failed, a sentence; may be null */
  size_t error_size;   /* bytes at `error` */
} rdm_shm_options;

/* Creates the segment /dev/shm/`name` after `plan`, and attaches to it as rank `rank`. Only
 * processes of the same user may attach. A segment of that name whose creator is dead is replaced.
 * RDM_INVALID: the name (1 to 200 characters, no slash), the plan or the rank; RDM_BUSY: there is
 * such a segment, in use; RDM_OUT_OF_BUDGET: no space for all of it, or files may not be so long;
 * RDM_SYSTEM. Then nothing is left in /dev/shm, and those who attach are told when their time is
 * over. `*out` is set only on RDM_OK. */
RDM_API int rdm_shm_create(const char *name, const rdm_shm_plan_options *plan, unsigned rank,
                           const rdm_shm_options *options, rdm_shm **out);

/* Attaches to the segment of that name as rank `rank`, from 0 to processes - 1; waits until it is
 * there. RDM_AGAIN: it was not there in time; RDM_BUSY: there is such a rank already; RDM_INVALID:
 * not such a segment (another version, truncated, another user's), the name or the rank;
 * RDM_PEER_DIED: some rank has failed or died before; RDM_OUT_OF_BUDGET: no space for this rank's
 * part; RDM_SYSTEM. */
RDM_API int rdm_shm_attach(const char *name, unsigned rank, const rdm_shm_options *options,
                           rdm_shm **out);

/* Waits for all ranks, and returns the same to all of them: RDM_OK, or what the first that failed
 * failed with: RDM_AGAIN: not all came in time; RDM_PEER_DIED: one died; or the status with which
 * one of them failed. `own` is RDM_OK when this rank is ready, or the reason why it is not, which
 * makes all fail. A rank that found no space, memory or address space when attaching has made all
 * fail already. Failing takes up to two seconds more (creating, attaching and detaching, too) while
 * some rank is not there yet: it is to be told as well. To be called once, before the first message. The name is gone afterwards, whatever
 * came of it. */
RDM_API int rdm_shm_commit(rdm_shm *segment, int own);

/* Unmaps the segment. What this rank sent can still be received; its own messages and fragments in
 * use become invalid. Null does nothing. */
RDM_API void rdm_shm_detach(rdm_shm *segment);

/* Removes the name of a segment that nobody committed, for those who clean up after ranks that were
 * all killed at once. RDM_OK too when there is none; RDM_INVALID: not such a segment, or the name;
 * RDM_BUSY: its creator lives. */
RDM_API int rdm_shm_remove(const char *name);

/* A buffer in the segment, to be filled and sent. */
typedef struct {
  void *data;      /* aligned to 64 */
  size_t capacity; /* bytes at `data` */
  size_t length;   /* to be set by the caller: bytes to send */
  uint64_t tag;    /* to be set by the caller; arrives as it is */
  uint64_t handle;
} rdm_shm_fragment;

/* One of this rank's own buffers of at least `size` bytes: an eager one if that is enough, else one
 * of the plan's chunk size. RDM_INVALID: none is so large; RDM_AGAIN: all are in use;
 * RDM_PEER_DIED: they are, and a rank died, who may have had them. */
RDM_API int rdm_shm_fragment_get(rdm_shm *segment, size_t size, rdm_shm_fragment *out);

/* Gives it back unsent. */
RDM_API void rdm_shm_fragment_put(rdm_shm *segment, const rdm_shm_fragment *fragment);

/* Sends it: it is the receiver's from now on. Messages to one peer arrive in the order in which they
 * were sent. RDM_AGAIN: the peer has not received enough; the fragment is still the caller's.
 * RDM_PEER_DIED: the peer is known to be gone. RDM_INVALID: a rank or length out of range, or this
 * rank itself. */
RDM_API int rdm_shm_post(rdm_shm *segment, unsigned peer, const rdm_shm_fragment *fragment);

/* Sends a copy of `length` bytes. The same, and as rdm_shm_fragment_get where there is no fragment.
 */
RDM_API int rdm_shm_send(rdm_shm *segment, unsigned peer, uint64_t tag, const void *data,
                         size_t length);

/* What arrived. */
typedef struct {
  const void *data;
  size_t length;
  uint64_t tag;
  unsigned from;
  uint64_t handle;
} rdm_shm_message;

/* The next message of any peer, whose memory is this rank's until it releases it; in any order, and
 * soon, for senders wait for it. RDM_AGAIN: there is none now, or another thread is just looking.
 * RDM_SYSTEM: the segment is damaged. Never waits, and does not tell of deaths: rdm_shm_wait does. */
RDM_API int rdm_shm_poll(rdm_shm *segment, rdm_shm_message *out);
RDM_API void rdm_shm_release(rdm_shm *segment, const rdm_shm_message *message);

/* Waits until there may be a message, or room again for what last refused the calling thread some;
 * RDM_AGAIN: `timeout_ms` have passed. Looks a while, lets others run, then sleeps. RDM_PEER_DIED: a
 * rank died, from then on at each call (poll goes on with what arrived before), or all others have
 * detached and nothing is left to be received. */
RDM_API int rdm_shm_wait(rdm_shm *segment, unsigned timeout_ms);

/* Facts about a segment. */
RDM_API unsigned rdm_shm_rank(const rdm_shm *segment);
RDM_API unsigned rdm_shm_processes(const rdm_shm *segment);
/* 1 when that rank is attached and lives, as far as the kernel tells. */
RDM_API int rdm_shm_is_alive(rdm_shm *segment, unsigned rank);

/* The sentence to the last status of this thread, other than RDM_OK and RDM_AGAIN from poll, wait,
 * post, send and fragment_get, that a function of this header returned. Empty before that. */
RDM_API const char *rdm_shm_last_error(void);

#ifdef __cplusplus
}
#endif

#endif
