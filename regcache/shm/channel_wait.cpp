// Waiting for messages: spin, yield, sleep.
#include <sched.h>

#include <atomic>

#include "allocator/os/relax.h"
#include "regcache/shm/channel.h"
#include "regcache/shm/clock.h"
#include "regcache/shm/failure.h"
#include "regcache/shm/starved.h"

namespace rdmalloc::shm {

namespace {

constexpr uint32_t kYields = 16;
constexpr uint64_t kSleepMs = kLookEveryMs;

int died(uint32_t lost) { return fail(RDM_PEER_DIED, "rank %u died", lost - 1); }

}  // namespace

thread_local Starved starved;

uint64_t Channel::next_number() {
  static std::atomic<uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

// Takes the lock although it only looks: a thread that polls moves positions, and briefly empties
// an inbox; whoever looked at that moment would sleep although there is a message.
bool Channel::has_message() {
  if (!polling_.try_lock()) return true;
  const bool has_any = has_pairs() ? rings_.has_next() : boxes_.has_next();
  polling_.unlock();
  return has_any;
}

// Whatever refused us last has room again.
bool Channel::can_go_on() {
  switch (starved.channel == number_ ? starved.by : Starved::kNothing) {
    case Starved::kNothing:
      return false;
    case Starved::kEager:
      return fragments_.has_some(false);
    case Starved::kLarge:
      return fragments_.has_some(true);
    default: {
      const uint32_t peer = starved.by - Starved::kPeer;
      return has_pairs() ? rings_.has_room(peer) : boxes_.has_room(peer);
    }
  }
}

int Channel::wait(uint32_t timeout_ms) {
  const auto has_cause = [this] { return has_message() || can_go_on(); };
  // Check for deaths even if there is a reason to go on: the living may keep each other busy
  // forever while one of them waits for the dead.
  const uint32_t lost = presence_.look_for_dead_now_and_then(now_ms());
  if (lost != 0) return died(lost);
  int status = RDM_AGAIN;
  for (uint32_t i = 0; i < spins_ + kYields && status != RDM_OK; ++i) {
    if (has_cause()) {
      status = RDM_OK;
    } else if (i < spins_) {
      os::relax();
    } else {
      sched_yield();
    }
  }
  if (status != RDM_OK) status = sleep_until(now_ms() + timeout_ms);
  starved.by = Starved::kNothing;
  return status;
}

int Channel::sleep_until(uint64_t deadline) {
  Doorbell bell(&mapping_.slot(mapping_.rank)->bell);
  for (;;) {
    const uint64_t now = now_ms();
    const uint32_t lost = presence_.look_for_dead_now_and_then(now);
    if (lost != 0) return died(lost);
    const bool is_alone = presence_.is_alone();
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
