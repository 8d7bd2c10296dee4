#pragma once

#include <stdint.h>

#include "regcache/shm/mapping.h"
#include "regcache/shm/presence.h"

namespace rdmalloc::shm {

// How all ranks of a segment agree on whether it is used: one verdict, which rdm_shm_commit()
// returns to each of them. One thread per rank.
class Agreement {
 public:
  Agreement(const Mapping& mapping, const Presence& presence)
      : mapping_(mapping), presence_(presence) {}

  // This rank is ready, or fails all with another status than RDM_OK. Waits for the others, and
  // returns what all ranks return.
  int reach(int own, uint64_t timeout_ms);

  // The first decision stands.
  void decide(int status);
  // 0: not decided yet.
  uint64_t verdict() const { return mapping_.header()->verdict.load(std::memory_order_acquire); }
  // Its status, with the message for last_failure().
  int tell(uint64_t decided) const;

 private:
  void decide(int status, uint32_t rank);
  int wait(uint64_t timeout_ms);

  const Mapping& mapping_;
  const Presence& presence_;
};

}  // namespace rdmalloc::shm
