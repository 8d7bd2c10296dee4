#pragma once

#include <stdint.h>

#include <atomic>

#include "regcache/shm/mapping.h"

namespace rdmalloc::shm {

// The longest that a death may go unnoticed by a waiting rank.
constexpr uint64_t kLookEveryMs = 20;

// Which ranks of a segment have come, have left, or died. Any thread, once the mapping is set up.
class Presence {
 public:
  explicit Presence(const Mapping& mapping) : mapping_(mapping) {}

  // The rank's process runs, as far as this one can see.
  bool runs(uint32_t rank, const Process& process) const;

  // Before commit(), and from the file instead of the mapping: until then nobody touches another
  // rank's part (segment.h).
  bool find_dead_before_commit(uint32_t* dead) const;
  // Some rank has neither come nor been turned away.
  bool is_anybody_to_come() const;

  // From here on: only after commit().
  bool is_alive(uint32_t rank) const;
  bool has_left(uint32_t rank) const {
    return mapping_.slot(rank)->state.load(std::memory_order_acquire) == RankSlot::kDetached;
  }
  // A rank known to have died, plus 1; 0: none.
  uint32_t lost() const { return mapping_.header()->lost.load(std::memory_order_acquire); }
  // Checks a few ranks in turn for deaths, unless this process did so within kLookEveryMs, and
  // tells all ranks of the first death. Returns that rank plus 1; 0: none is known.
  uint32_t look_for_dead_now_and_then(uint64_t now);
  // True: every other rank has detached.
  bool is_alone() const;

 private:
  uint32_t look_for_dead();

  const Mapping& mapping_;
  std::atomic<uint32_t> next_look_{0};     // rank
  std::atomic<uint64_t> time_of_look_{0};  // ms
};

}  // namespace rdmalloc::shm
