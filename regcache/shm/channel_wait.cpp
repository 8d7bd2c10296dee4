// Waiting for messages: spin, yield, sleep.
#include <sched.h>

#include "regcache/shm/channel.h"
#include "regcache/shm/clock.h"
#include "regcache/shm/failure.h"

namespace rdmalloc::shm {

namespace {

constexpr uint32_t kSpins = 2000;
constexpr uint32_t kYields = 16;
constexpr uint64_t kSleepMs = kLookEveryMs;

int died(uint32_t lost) { return fail(RDM_PEER_DIED, "rank %u died", lost - 1); }

inline void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

thread_local Starved starved;

// Spinning does not help if the sender has no processor to run on.
uint32_t Channel::spins_for(uint32_t procs) {
  cpu_set_t processors;
  if (sched_getaffinity(0, sizeof processors, &processors) != 0) return kSpins;
  return procs <= static_cast<uint32_t>(CPU_COUNT(&processors)) ? kSpins : 0;
}

// Takes the lock although it only looks: a thread that polls moves positions, and briefly empties
// an inbox; whoever looked at that moment would sleep although there is a message.
bool Channel::has_message() {
  if (!polling_.try_lock()) return true;
  bool has_any = is_mpsc() && inbox_.has_next();
  for (uint32_t i = 0; i < segment_.plan().box_count() && !has_any; ++i) {
    has_any = boxes_[i].peek() != nullptr;
  }
  for (uint32_t from = 0; from < segment_.procs() && !has_any && !is_mpsc(); ++from) {
    has_any = from != segment_.rank() && peers_[from].from.has_next();
  }
  polling_.unlock();
  return has_any;
}

// Whatever refused us last has room again.
bool Channel::can_go_on() {
  switch (starved.channel == this ? starved.by : Starved::kNothing) {
    case Starved::kNothing:
      return false;
    case Starved::kEager:
      return eager_.has_some();
    case Starved::kLarge:
      return large_.has_some();
    default: {
      const Peer& peer = peers_[starved.by - Starved::kRing];
      return is_mpsc() ? peer.box.has_room() : peer.to.has_room();
    }
  }
}

int Channel::wait(uint32_t timeout_ms) {
  const auto has_cause = [this] { return has_message() || can_go_on(); };
  // Check for deaths even if there is a reason to go on: the living may keep each other busy
  // forever while one of them waits for the dead.
  const uint32_t lost = segment_.look_for_dead_now_and_then(now_ms());
  if (lost != 0) return died(lost);
  int status = RDM_AGAIN;
  for (uint32_t i = 0; i < spins_ + kYields && status != RDM_OK; ++i) {
    if (has_cause()) {
      status = RDM_OK;
    } else if (i < spins_) {
      relax();
    } else {
      sched_yield();
    }
  }
  if (status != RDM_OK) status = sleep_until(now_ms() + timeout_ms);
  starved.by = Starved::kNothing;
  return status;
}

int Channel::sleep_until(uint64_t deadline) {
  Doorbell bell(peers_[segment_.rank()].bell);
  for (;;) {
    const uint64_t now = now_ms();
    const uint32_t lost = segment_.look_for_dead_now_and_then(now);
    if (lost != 0) return died(lost);
    const bool is_alone = segment_.is_alone();
    // After checking is_alone: messages sent by ranks that have since left still count.
    const uint32_t ticket = bell.enter();
    const bool has_cause = has_message() || can_go_on();
    if (!has_cause && !is_alone && now < deadline) {
      const uint64_t left = deadline - now;
      bell.sleep(ticket, (left < kSleepMs ? left : kSleepMs) * 1'000'000);
    }
    bell.leave();
    if (has_cause || has_message() || can_go_on()) return RDM_OK;
    if (is_alone) return fail(RDM_PEER_DIED, "all other ranks have detached");
    if (now >= deadline) return RDM_AGAIN;
  }
}

}  // namespace rdmalloc::shm
