#include "regcache/shm/rings.h"

#include "include/rdmalloc/shm.h"
#include "regcache/shm/failure.h"

namespace rdmalloc::shm {

int Rings::open() {
  for (uint32_t other = 0; other < mapping_.procs(); ++other) {
    if (other == mapping_.rank) continue;
    int status = open_ring(mapping_.rank, other, &pairs_[other].to);
    if (status == RDM_OK) status = open_ring(other, mapping_.rank, &pairs_[other].from);
    if (status != RDM_OK) return status;
  }
  return RDM_OK;
}

// What the receiver wrote must match the plan.
int Rings::open_ring(uint32_t from, uint32_t to, Ring* out) const {
  const PairPlan pair = mapping_.plan.pair(from, to);
  const uint32_t entries = mapping_.plan.shape().queue_entries;
  const auto* fifo = mapping_.as<Fifo>(pair.fifo);
  const auto* wrapper = mapping_.as<Wrapper>(pair.wrapper);
  if (fifo->wrapper != pair.wrapper || wrapper->queue != pair.queue || wrapper->head != pair.head ||
      wrapper->tail != pair.tail || wrapper->entries != entries) {
    return fail(RDM_SYSTEM, "the segment is damaged: the ring from rank %u to rank %u", from, to);
  }
  *out = Ring(mapping_.as<Ring::Word>(pair.queue), entries, mapping_.as<Ring::Position>(pair.head),
              mapping_.as<Ring::Position>(pair.tail));
  return RDM_OK;
}

bool Rings::pop(uint64_t* offset) {
  const uint32_t procs = mapping_.procs();
  for (uint32_t i = 0; i < procs; ++i) {
    const uint32_t from = next_;
    next_ = next_ + 1 == procs ? 0 : next_ + 1;
    if (from != mapping_.rank && pairs_[from].from.pop(offset)) return true;
  }
  return false;
}

bool Rings::has_next() const {
  for (uint32_t from = 0; from < mapping_.procs(); ++from) {
    if (from != mapping_.rank && pairs_[from].from.has_next()) return true;
  }
  return false;
}

}  // namespace rdmalloc::shm
