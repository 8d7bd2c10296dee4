#include "regcache/shm/agreement.h"

#include "include/rdmalloc/shm.h"
#include "regcache/shm/clock.h"
#include "regcache/shm/failure.h"

namespace rdmalloc::shm {

void Agreement::decide(int status) { decide(status, mapping_.rank); }

// One word, so that all ranks read the same.
void Agreement::decide(int status, uint32_t rank) {
  SegmentHeader* const header = mapping_.header();
  uint64_t pending = 0;
  // acq_rel: a rank that reads that all are ready sees what each has written to its part.
  header->verdict.compare_exchange_strong(pending, verdict::make(status, rank),
                                          std::memory_order_acq_rel);
  Doorbell(&header->commits).ring();
}

int Agreement::reach(int own, uint64_t timeout_ms) {
  std::atomic<uint32_t>& ready = mapping_.header()->ready;
  if (own != RDM_OK) {
    decide(own);
  } else if (ready.fetch_add(1, std::memory_order_acq_rel) + 1 == mapping_.procs()) {
    decide(RDM_OK);
  }
  return wait(timeout_ms);
}

int Agreement::wait(uint64_t timeout_ms) {
  constexpr uint64_t kLookEveryNs = kLookEveryMs * 1'000'000;
  const uint64_t deadline = now_ms() + timeout_ms;
  Doorbell bell(&mapping_.header()->commits);
  for (;;) {
    const uint32_t ticket = bell.enter();
    if (verdict() == 0) bell.sleep(ticket, kLookEveryNs);
    bell.leave();
    if (const uint64_t decided = verdict(); decided != 0) return tell(decided);
    uint32_t dead = 0;
    if (presence_.find_dead_before_commit(&dead)) decide(RDM_PEER_DIED, dead);
    if (now_ms() >= deadline) decide(RDM_AGAIN);
  }
}

int Agreement::tell(uint64_t decided) const {
  const int status = verdict::status(decided);
  const uint32_t rank = verdict::rank(decided);
  switch (status) {
    case RDM_OK:
      return RDM_OK;
    case RDM_AGAIN:
      return fail(status, "only %u of %u ranks came in time, as rank %u found",
                  mapping_.header()->ready.load(std::memory_order_relaxed), mapping_.procs(), rank);
    case RDM_PEER_DIED:
      return fail(status, "rank %u died, or gave up, before all ranks were ready", rank);
    case RDM_OUT_OF_BUDGET:
      return fail(status, "rank %u found no space for its %llu bytes of the segment in /dev/shm",
                  rank, static_cast<unsigned long long>(mapping_.plan.part(rank).size));
    default:
      return fail(status, "rank %u was not ready, with status %d", rank, status);
  }
}

}  // namespace rdmalloc::shm
