#include "allocator/limits/budget.h"

#include <algorithm>

#include "allocator/os/limits.h"
#include "allocator/os/memory.h"

namespace rdmalloc {
namespace {

// As much is held before the limits are looked at.
constexpr size_t kUnlookedBytes = size_t{2} << 20;

// What is available is checked once for so much, or for this share of it where little is available:
// several processes may grow at once.
constexpr size_t kUncheckedStep = size_t{1} << 20;
constexpr uint64_t kSharers = 16;

using os::less;

// The user's own limits hold from the first byte, and shares of memory are of all that the process
// may have.
bool decides_at_start(const Options& options) {
  for (const OptionId id :
       {OptionId::window, OptionId::cap, OptionId::headroom, OptionId::node_cap, OptionId::reserve,
        OptionId::memory_cap, OptionId::counters_from, OptionId::populate}) {
    if (options.is_given(id)) return true;
  }
  return false;
}

}  // namespace

void Budget::boot(const Options& options) {
  options_ = &options;
  pin_limit_.boot(options);
  if (decides_at_start(options)) return look();
  os::LockLimit limit;
  limit.soft = os::soft_lock_limit();
  const uint64_t installed = os::installed_memory();
  set_limits(installed, installed, limit);
}

void Budget::look() {
  if (has_looked_) return;
  has_looked_ = true;
  uint64_t machine = os::total_memory();
  // A process that has confined itself cannot read it any more.
  if (machine == os::kNoLimit && memory_.machine() != 0) machine = memory_.machine();
  const os::Cgroup group = os::cgroup();
  set_limits(machine, std::min(group.max, machine), os::lock_limit());
  const uint64_t node_cap = resolve(options_->amount(OptionId::node_cap));
  pin_limit_.set_share(shared_.join(*options_, node_cap, group));
}

void Budget::set_limits(uint64_t machine, uint64_t total, const os::LockLimit& limit) {
  memory_.set_total(machine, total);
  pin_limit_.set(limit);
  const Amount cap = options_->amount(OptionId::memory_cap);
  memory_.set_cap(resolve(cap), cap.unit != Amount::Unit::kBytes);
}

// How much of `want` is available. A heap grows by small steps while it is small, and each would
// read the kernel's files: what is checked holds for a step beyond what is held now, because what
// is granted may not be taken.
uint64_t Budget::available(size_t want) {
  const size_t would_be_held = charges_.held() + want;
  if (would_be_held <= unchecked_until_) return want;
  const uint64_t room = memory_.room_to_populate();
  const uint64_t step = std::min<uint64_t>(less(room, want) / kSharers, kUncheckedStep);
  if (step != 0) unchecked_until_ = charges_.held() + step;
  return room;
}

Grant Budget::ask_pinned(size_t need, size_t want) {
  if (charges_.held() + want > kUnlookedBytes || pin_limit_.left() < need) look();
  pin_limit_.look();
  const uint64_t left_to_hold = less(memory_.cap(), charges_.held());
  if (left_to_hold < need) {
    // Name the limit on pins only if it is reached as well.
    if (pin_limit_.left() >= need) pin_limit_.note_other(LimitedBy::kAvailable);
    return {};
  }
  pin_limit_.look_closely(need);
  uint64_t room = std::min(pin_limit_.left(), left_to_hold);
  if (room < need) return {};
  room = std::min(room, available(std::min<uint64_t>(want, room)));
  if (room < need) {
    pin_limit_.note_other(LimitedBy::kAvailable);
    return {};
  }
  pin_limit_.note_own();
  room = shared_.ask(need, os::page_floor(std::min<uint64_t>(want, room)));
  if (room < need) {
    pin_limit_.note_other(shared_.limited_by());
    return {};
  }
  return {os::page_floor(room), RegionKind::kPinned};
}

Grant Budget::ask_overflow(size_t need, size_t want) const {
  if (options_->on(OptionId::strict)) return {};
  return ask_unpinned(RegionKind::kOverflow, need, want);
}

Grant Budget::ask_unpinned(RegionKind kind, size_t need, size_t want) const {
  uint64_t left = less(memory_.cap(), charges_.held());
  if (options_->is_given(OptionId::memory_cap) && left < need) return {};
  if (memory_.is_beyond_machine(need)) return {};
  if (kind == RegionKind::kOverflow && charges_.held() + want > kUncheckedBytes) {
    const uint64_t room = memory_.room_to_touch();
    if (room == 0) return {};
    left = std::min(left, room);
  }
  left = std::max<uint64_t>(left, need);
  return {os::page_floor(std::min<uint64_t>(want, left)), kind};
}

void Budget::note_refusal(size_t bytes) {
  look();
  pin_limit_.note_refusal(bytes);
}

void Budget::note_fork_child() {
  charges_.note_fork_child();
  shared_.note_fork_child();
}

}  // namespace rdmalloc
