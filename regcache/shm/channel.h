#pragma once

#include <stdint.h>

#include "include/rdmalloc/shm.h"
#include "regcache/shm/boxes.h"
#include "regcache/shm/fragments.h"
#include "regcache/shm/mapping.h"
#include "regcache/shm/presence.h"
#include "regcache/shm/rings.h"
#include "regcache/shm/spin_lock.h"

namespace rdmalloc::shm {

// Messages over a committed segment; include/rdmalloc/shm.h has the contract of each function.
// Fragments hold them, and Rings or Boxes carry them, as the layout has it. Wait-free, except
// wait() and threads of one process that contend.
class Channel {
 public:
  // make() allocates memory before the segment is committed. open() runs after it, and does what
  // needs the peers' parts.
  static Channel* make(const Mapping& mapping, Presence& presence);
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
  Channel(const Mapping& mapping, Presence& presence) : mapping_(mapping), presence_(presence) {}

  int check_peer(uint32_t rank) const;
  int deliver(uint32_t peer, Fragment* fragment);
  int refused(uint32_t peer);
  void ring(uint32_t rank) { Doorbell(&mapping_.slot(rank)->bell).ring(); }
  bool has_pairs() const { return mapping_.plan.shape().has_pairs(); }

  static uint64_t next_number();
  bool has_message();
  bool can_go_on();
  int sleep_until(uint64_t deadline);

  const Mapping& mapping_;
  Presence& presence_;
  Fragments fragments_{mapping_};
  Rings rings_{mapping_};              // one of the two is used
  Boxes boxes_{mapping_, fragments_};  // the other has no memory
  SpinLock polling_;                   // for all that receives
  uint32_t spins_ = 0;
  const uint64_t number_ = next_number();  // of all that this process has had
};

}  // namespace rdmalloc::shm
