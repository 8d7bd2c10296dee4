#include "regcache/preload/verbs/room.h"

#include <atomic>
#include <cstdint>

#include "allocator/os/clock.h"
#include "regcache/domain/held_keys.h"

namespace rdmalloc::shim {
namespace {

constexpr size_t kMostDomains = 64;  // the most that can be open
constexpr uint64_t kFirstWaitNs = 10'000'000;
constexpr uint64_t kLongestWaitNs = 1'280'000'000;

// The smallest length for which giving back was in vain, until when it is not tried again for that
// length, and how long that interval was. If threads write these concurrently, any mix of their
// values is valid.
constinit std::atomic<size_t> vain_length{SIZE_MAX};
constinit std::atomic<uint64_t> vain_until{0};
constinit std::atomic<uint64_t> vain_wait{0};
constinit std::atomic<uint64_t> room_made{0};

bool is_in_vain(size_t length) {
  return length >= vain_length.load(std::memory_order_relaxed) &&
         os::now_ns() < vain_until.load(std::memory_order_relaxed);
}

}  // namespace

uint64_t Room::times_made() { return room_made.load(std::memory_order_acquire); }

Room::Room(const DomainTable& domains, const ibv_context* device, size_t length, uint64_t made)
    : length_(length) {
  if (is_in_vain(length)) return;
  rdm_domain* all[kMostDomains];
  size_t of_device = 0;
  const size_t count = domains.list(device, all, kMostDomains, &of_device);
  is_mine_ = count != 0 && rdm_shim_make_room(all, count, of_device, length) != 0;
  if (is_mine_) room_made.fetch_add(1, std::memory_order_acq_rel);
  is_made_ = is_mine_ || times_made() != made;
}

Room::~Room() {
  if (is_mine_) rdm_shim_end_room();
}

void Room::was_in_vain() const {
  const uint64_t before = vain_wait.load(std::memory_order_relaxed);
  uint64_t wait = before == 0 ? kFirstWaitNs : 2 * before;
  if (wait > kLongestWaitNs) wait = kLongestWaitNs;
  const size_t known = vain_length.load(std::memory_order_relaxed);
  vain_wait.store(wait, std::memory_order_relaxed);
  vain_length.store(length_ < known ? length_ : known, std::memory_order_relaxed);
  vain_until.store(os::now_ns() + wait, std::memory_order_relaxed);
}

void Room::note_more() {
  if (vain_wait.load(std::memory_order_relaxed) == 0) return;
  vain_length.store(SIZE_MAX, std::memory_order_relaxed);
  vain_wait.store(0, std::memory_order_relaxed);
}

}  // namespace rdmalloc::shim
