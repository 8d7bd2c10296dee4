#pragma once

#include <stdint.h>

#include <atomic>

#include "include/rdmalloc/shm.h"
#include "regcache/shm/fast_box.h"
#include "regcache/shm/free_list.h"
#include "regcache/shm/inbox.h"
#include "regcache/shm/ring.h"
#include "regcache/shm/segment.h"

namespace rdmalloc::shm {

// Excludes other threads of the same process, for a few instructions. Waiting threads yield.
class SpinLock {
 public:
  bool try_lock() { return !is_held_.exchange(true, std::memory_order_acquire); }
  void lock();
  void unlock() { is_held_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> is_held_{false};
};

// What this rank sends to and receives from one other rank. Private to the process.
struct Peer {
  Ring to, from;
  Doorbell::Words* bell = nullptr;
  // mpsc only, under `lock` if several threads send:
  SpinLock lock;
  FastBox box;              // the box we send to, once claimed
  uint32_t posted = 0;      // messages posted to its inbox
  uint32_t taken = 0;       // its messages taken from our inbox; under the channel's polling_
  bool is_refused = false;  // all its boxes were taken
};

// What last refused room to the calling thread, for it to wait for: a list, or kRing plus a peer.
// Kept per thread, because otherwise one thread could make another miss that there is room again.
struct Starved {
  enum : uint32_t { kNothing = 0, kEager, kLarge, kRing };
  const void* channel;
  uint32_t by;
};
extern thread_local Starved starved;

// Messages over a committed segment; include/rdmalloc/shm.h has the contract of each function.
// Wait-free, except wait() and threads of one process that contend.
class Channel {
 public:
  // make() allocates memory before the segment is committed. open() runs after it, and does what
  // needs the peers' parts.
  static Channel* make(Segment& segment);
  static void destroy(Channel* channel);
  int open();

  int get(size_t size, rdm_shm_fragment* out);
  void put(const rdm_shm_fragment* fragment);
  int post(uint32_t peer, const rdm_shm_fragment* fragment);
  int send(uint32_t peer, uint64_t tag, const void* data, size_t length);
  int poll(rdm_shm_message* out);
  void release(const rdm_shm_message* message);
  int wait(uint32_t timeout_ms);

 private:
  explicit Channel(Segment& segment) : segment_(segment) {}
  bool allocate();
  static uint32_t spins_for(uint32_t procs);
  int open_ring(uint32_t from, uint32_t to, Ring* out);
  Inbox inbox_of(uint32_t rank) const;
  FastBox box_of(uint32_t rank, uint32_t index) const;

  Fragment* take(size_t size);
  Fragment* fragment_of(uint64_t handle) const { return segment_.as<Fragment>(handle); }
  uint64_t offset_of(Fragment* fragment) const {
    return static_cast<uint64_t>(reinterpret_cast<unsigned char*>(fragment) - segment_.at(0));
  }
  int deliver(uint32_t peer, Fragment* fragment);
  int deliver_mpsc(uint32_t peer, Fragment* fragment);
  bool send_whole(uint32_t peer, uint64_t tag, const void* data, size_t length, int* status);
  bool has_box(uint32_t peer);
  bool is_peer(uint32_t rank) const { return rank < segment_.procs() && rank != segment_.rank(); }
  int no_peer(uint32_t rank) const;
  int refused(uint32_t peer);
  int nothing_free();
  void ring(uint32_t peer) { Doorbell(peers_[peer].bell).ring(); }

  bool poll_rings(uint64_t* offset);
  bool poll_box(uint32_t index, rdm_shm_message* out, uint64_t* offset);
  int poll_mpsc(rdm_shm_message* out);
  int open_message(uint64_t offset, rdm_shm_message* out);
  bool has_message();
  bool can_go_on();
  int sleep_until(uint64_t deadline);

  size_t capacity(const Fragment* fragment) const {
    return fragment->is_large != 0 ? segment_.plan().max_bytes() : segment_.plan().eager_bytes();
  }
  bool is_mpsc() const { return segment_.plan().shape().layout == RDM_SHM_MPSC; }
  bool has_threads() const { return (segment_.plan().shape().flags & RDM_SHM_MULTITHREADED) != 0; }

  Segment& segment_;
  Peer* peers_ = nullptr;  // indexed by rank; our own is unused
  FastBox* boxes_ = nullptr;
  Fragment** table_ = nullptr;  // eager fragments, then large ones
  FreeList eager_, large_;
  Inbox inbox_;
  SpinLock polling_;
  uint32_t next_ = 0;  // where poll() starts looking; under polling_
  uint32_t spins_ = 0;
};

}  // namespace rdmalloc::shm
