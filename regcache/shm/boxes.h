#pragma once

#include <stddef.h>
#include <stdint.h>

#include "include/rdmalloc/shm.h"
#include "regcache/shm/fast_box.h"
#include "regcache/shm/fragments.h"
#include "regcache/shm/inbox.h"
#include "regcache/shm/mapping.h"
#include "regcache/shm/private_array.h"
#include "regcache/shm/spin_lock.h"

namespace rdmalloc::shm {

// What carries messages under the layout mpsc: each process has an inbox for all senders, and a few
// fast boxes for those that often send to it. Private to the process. Any thread sends; one at a
// time receives. Nothing waits but threads of one process that send to the same peer.
class Boxes {
 public:
  Boxes(const Mapping& mapping, const Fragments& fragments)
      : mapping_(mapping), fragments_(fragments) {}

  // Before commit(). False: no memory.
  bool make();
  // After it.
  void open();

  // The offset of a fragment. False: our box is full.
  bool push(uint32_t peer, uint64_t offset);
  // A small message, without a fragment. False: we have no box there, or the message is too long.
  // `*is_sent`: there was room in it.
  bool push_whole(uint32_t peer, uint64_t tag, const void* data, size_t length, bool* is_sent);
  bool has_room(uint32_t peer) const { return peers_[peer].box.has_room(); }

  // Polls the boxes in turn, then the inbox. RDM_AGAIN: nothing has come.
  int poll(rdm_shm_message* out);
  bool has_next() const;
  // A message's handle is that of a slot in a box, not of a fragment; the second frees the slot.
  static bool is_slot(uint64_t handle) { return (handle & kSlotHandle) != 0; }
  void done(uint64_t handle) const;

 private:
  static constexpr uint64_t kSlotHandle = uint64_t{1} << 63;

  // What this process sends to and receives from one other.
  struct Peer {
    SpinLock lock;            // for the following, if several threads send
    FastBox box;              // the box we send to, once claimed
    uint32_t posted = 0;      // messages posted to its inbox
    bool is_refused = false;  // all its boxes were taken
    uint32_t taken = 0;       // its messages taken from our inbox; for the receiving thread
  };

  FastBox box_of(uint32_t rank, uint32_t index) const;
  Inbox inbox_of(uint32_t rank) const;
  bool has_box(uint32_t peer);
  bool poll_box(FastBox& box, rdm_shm_message* out, int* status);

  const Mapping& mapping_;
  const Fragments& fragments_;
  PrivateArray<Peer> peers_;  // by rank; our own is unused
  PrivateArray<FastBox> own_;
  Inbox inbox_;
  uint32_t next_ = 0;  // where poll() starts looking
};

}  // namespace rdmalloc::shm
