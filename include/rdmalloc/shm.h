/* A segment of shared memory between the processes (ranks) of one machine, and a channel of
 * messages over it: for MPI libraries and others that have their own way to start ranks. C11 and
 * C++. Link with librdmalloc-shm; it needs no other part of rdmalloc, and works under any malloc.
 *
 * A segment is as large as its plan (shm_plan.h), to the byte. One rank creates it, the others
 * attach to it by its name, all of them commit, and the name is gone: nothing stays in /dev/shm. If
 * one rank fails or dies, all others are told. The layouts are those of an Open MPI RFC of 2009
 * (fragmented sm allocations), and RDM_SHM_MPSC is what Open MPI did after it.
 *
 * Several threads may use a segment; every function may be called from any of them. Sending to one
 * peer from several threads at a time needs RDM_SHM_MULTITHREADED in the plan's flags. A child of
 * fork must not use its parent's segments; it may attach to segments of its own. Nothing here may
 * be called from a signal handler or from inside malloc. */
#ifndef RDMALLOC_SHM_H
#define RDMALLOC_SHM_H

#include <rdmalloc/rdmalloc.h>
#include <rdmalloc/shm_plan.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rdm_shm rdm_shm;

/* For the defaults, zero everything but `size`, or pass null. */
typedef struct {
  size_t size;         /* sizeof(rdm_shm_options), so that it may grow */
  unsigned timeout_ms; /* how long to wait for the other ranks when attaching and committing;
                          0: 30 s */
  unsigned unbound;    /* 1: first touch decides on which NUMA node this rank's part lies; 0: bind
                          it to the node of the calling thread (if there are several nodes) */
  char *error;         /* receives a sentence that says why it failed; may be null */
  size_t error_size;   /* bytes at `error` */
} rdm_shm_options;

/* Creates the segment /dev/shm/`name` according to `plan`, and attaches to it as rank `rank`. Only
 * processes of the same user may attach. A segment of that name whose creator is dead is replaced.
 * RDM_INVALID: the name (1 to 200 characters, no slash), the plan or the rank is wrong; RDM_BUSY:
 * such a segment exists and is in use; RDM_OUT_OF_BUDGET: there is no space for all of it, or files
 * may not be that long; RDM_SYSTEM. After a failure nothing is left in /dev/shm, and those who
 * attach are told once their timeout has passed. `*out` is set only on RDM_OK. */
RDM_API int rdm_shm_create(const char *name, const rdm_shm_plan_options *plan, unsigned rank,
                           const rdm_shm_options *options, rdm_shm **out);

/* Attaches to the segment of that name as rank `rank`, from 0 to processes - 1; waits until the
 * segment exists. RDM_AGAIN: it did not appear in time; RDM_BUSY: that rank is attached already;
 * RDM_INVALID: it is no such segment (another version, truncated, another user's), or the name or
 * rank is wrong; RDM_PEER_DIED: a rank has failed or died before; RDM_OUT_OF_BUDGET: there is no
 * space for this rank's part; RDM_SYSTEM. */
RDM_API int rdm_shm_attach(const char *name, unsigned rank, const rdm_shm_options *options,
                           rdm_shm **out);

/* Waits for all ranks and returns the same status to all of them: RDM_OK; RDM_AGAIN: not all came
 * in time; RDM_PEER_DIED: one died; or the status with which the first of them failed. `own` is
 * RDM_OK if this rank is ready, or the reason why it is not, which makes all ranks fail. A rank
 * that found no space, memory or address space when it attached has made all fail already. A
 * failure (also of creating, attaching and detaching) takes up to two seconds more while some rank
 * is not there yet, so that it is told, too. Call this once, before the first message. Afterwards
 * the name is gone, whatever the result. */
RDM_API int rdm_shm_commit(rdm_shm *segment, int own);

/* Unmaps the segment. What this rank has sent can still be received; messages and fragments that it
 * has in use become invalid. Null does nothing. */
RDM_API void rdm_shm_detach(rdm_shm *segment);

/* Removes the name of a segment that nobody committed, to clean up after ranks that were all killed
 * at once. RDM_OK, also if there is none; RDM_INVALID: it is no such segment, or the name is wrong;
 * RDM_BUSY: its creator is alive. */
RDM_API int rdm_shm_remove(const char *name);

/* A buffer in the segment, to be filled and sent. */
typedef struct {
  void *data;      /* aligned to 64 */
  size_t capacity; /* bytes at `data` */
  size_t length;   /* set by the caller: bytes to send */
  uint64_t tag;    /* set by the caller; arrives unchanged */
  uint64_t handle;
} rdm_shm_fragment;

/* Gets one of this rank's own buffers of at least `size` bytes: an eager one if that is enough,
 * else one of the plan's chunk size. RDM_INVALID: none is that large; RDM_AGAIN: all are in use;
 * RDM_PEER_DIED: all are in use, and a rank died that may have had them. */
RDM_API int rdm_shm_fragment_get(rdm_shm *segment, size_t size, rdm_shm_fragment *out);

/* Returns a fragment unsent. */
RDM_API void rdm_shm_fragment_put(rdm_shm *segment, const rdm_shm_fragment *fragment);

/* Sends a fragment, which belongs to the receiver from now on. Messages to one peer arrive in the
 * order in which they were sent. RDM_AGAIN: the peer has not received enough; the fragment still
 * belongs to the caller. RDM_PEER_DIED: the peer is known to be gone. RDM_INVALID: the rank or
 * length is out of range, or it is this rank itself. */
RDM_API int rdm_shm_post(rdm_shm *segment, unsigned peer, const rdm_shm_fragment *fragment);

/* Sends a copy of `length` bytes. Returns what rdm_shm_post or rdm_shm_fragment_get would. */
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

/* Receives the next message of any peer. Its memory belongs to this rank until the message is
 * released; messages may be released in any order, but soon, because senders wait for it.
 * RDM_AGAIN: there is none now, or another thread is polling. RDM_SYSTEM: the segment is damaged.
 * Never waits, and does not report deaths: rdm_shm_wait does. */
RDM_API int rdm_shm_poll(rdm_shm *segment, rdm_shm_message *out);
RDM_API void rdm_shm_release(rdm_shm *segment, const rdm_shm_message *message);

/* Waits until there may be a message, or room again for what the calling thread was last refused.
 * RDM_AGAIN: `timeout_ms` have passed. Polls for a while, then yields, then sleeps. RDM_PEER_DIED:
 * a rank died, and so at each call from then on (poll still returns what arrived before); or all
 * others have detached and nothing is left to receive. */
RDM_API int rdm_shm_wait(rdm_shm *segment, unsigned timeout_ms);

/* Facts about a segment. */
RDM_API unsigned rdm_shm_rank(const rdm_shm *segment);
RDM_API unsigned rdm_shm_processes(const rdm_shm *segment);
/* 1 if that rank is attached and alive, as far as the kernel tells. */
RDM_API int rdm_shm_is_alive(rdm_shm *segment, unsigned rank);

/* Explains the last status that a function of this header returned to this thread, other than
 * RDM_OK, and other than RDM_AGAIN from poll, wait, post, send and fragment_get. Empty before
 * that. */
RDM_API const char *rdm_shm_last_error(void);

#ifdef __cplusplus
}
#endif

#endif
