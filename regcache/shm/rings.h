#pragma once

#include <stdint.h>

#include "regcache/shm/mapping.h"
#include "regcache/shm/private_array.h"
#include "regcache/shm/ring.h"

namespace rdmalloc::shm {

// What carries messages under all layouts but mpsc: a ring from each process to each other. Private
// to the process. Any thread sends if the segment is for several; one at a time receives.
class Rings {
 public:
  explicit Rings(const Mapping& mapping) : mapping_(mapping) {}

  // Before commit(). False: no memory.
  bool make() { return pairs_.make(mapping_.procs()); }
  // After it: reads what the peers have written.
  int open();

  // The offset of a fragment. False: full.
  bool push(uint32_t peer, uint64_t offset) {
    Ring& to = pairs_[peer].to;
    return mapping_.plan.shape().has_threads() ? to.push_shared(offset) : to.push(offset);
  }
  bool has_room(uint32_t peer) const { return pairs_[peer].to.has_room(); }

  // Polls the peers in turn, so that one that sends all the time does not starve the others. False:
  // nothing has come.
  bool pop(uint64_t* offset);
  bool has_next() const;

 private:
  struct Pair {
    Ring to, from;
  };

  int open_ring(uint32_t from, uint32_t to, Ring* out) const;

  const Mapping& mapping_;
  PrivateArray<Pair> pairs_;  // by rank; our own is unused
  uint32_t next_ = 0;         // where pop() starts looking
};

}  // namespace rdmalloc::shm
