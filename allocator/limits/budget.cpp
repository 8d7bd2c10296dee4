#include "allocator/limits/budget.h"

#include <algorithm>

#include "allocator/breakage.h"
#include "allocator/limits/launcher.h"
#include "allocator/os/limits.h"
#include "allocator/os/memory.h"
#include "allocator/report/file_name.h"

namespace rdmalloc {
namespace {

// Then it is checked once for so much, or for this share of it where little is available: several
// processes may grow at once.
constexpr size_t kUncheckedStep = size_t{1} << 20;
constexpr uint64_t kSharers = 16;

// Left to the rest of the system when memory is populated: page tables, stacks, file cache.
constexpr uint64_t kLeastReserve = uint64_t{16} << 20;
constexpr uint64_t kReserveShare = 64;

// In a small control group a share is too little for what a process has besides its heap: text,
// stacks, page tables, the engine's metadata.
constexpr uint64_t kProcessReserve = uint64_t{8} << 20;

// With so little left, the next process that touches memory is killed: the kernel reserves part of
// a limit for each processor and for page tables.
constexpr uint64_t kLeastLeft = uint64_t{2} << 20;
constexpr uint64_t kMostLeft = uint64_t{16} << 20;

// This part of memory that several processes share is never populated ahead of need: each process
// also has page tables and other memory that counts, and goes on to touch what is not populated
// yet.
constexpr uint64_t kNeverAhead = 4;

// The processes of a control group together pin at most all but this share of its limit.
constexpr uint64_t kGroupShare = 20;

// As much is held before the limits are looked at.
constexpr size_t kUnlookedBytes = size_t{2} << 20;

using os::less;

}  // namespace

const char* name(LimitedBy by) {
  switch (by) {
    case LimitedBy::kCap:
      return "cap";
    case LimitedBy::kMemlock:
      return "memlock";
    case LimitedBy::kAvailable:
      return "available";
    case LimitedBy::kMachine:
      return "node";
  }
  return "?";
}

namespace {

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
  headroom_ = options.amount(OptionId::headroom);
  own_cap_ = options.amount(OptionId::cap);
  is_capped_ = options.is_given(OptionId::memory_cap);
  strict_ = options.on(OptionId::strict);
  if (decides_at_start(options)) return look();
  os::LockLimit limit;
  limit.soft = os::soft_lock_limit();
  machine_ = os::installed_memory();
  set_limits(machine_, limit);
}

void Budget::look() {
  if (has_looked_) return;
  has_looked_ = true;
  // A process that has confined itself cannot read it any more.
  if (const uint64_t total = os::total_memory(); total != os::kNoLimit || machine_ == 0) {
    machine_ = total;
  }
  const os::Cgroup group = os::cgroup();
  set_limits(group.max < machine_ ? group.max : machine_, os::lock_limit());
  look_at_machine(group);
  set_memlock(memlock_);
  limit_pins(lockable_);
  if (pin_limit() < pinned()) pin_limit_ = pinned();
}

void Budget::set_limits(uint64_t memory, const os::LockLimit& limit) {
  memory_ = memory;
  soft_ = limit.soft;
  set_memlock(limit.effective());
  const Amount memory_cap = options_->amount(OptionId::memory_cap);
  uint64_t most = resolve(memory_cap);
  const uint64_t kept = memory / 2 < kProcessReserve ? memory / 2 : kProcessReserve;
  // An amount given in bytes is taken as it is.
  if (memory_cap.unit != Amount::Unit::kBytes && most > less(memory, kept)) {
    most = less(memory, kept);
  }
  memory_cap_ = most;
  limit_pins(lockable_);
}

// Each rank gets its own share, whichever starts first. The ledger keeps the sum below the limit if
// more processes start than the launcher announced.
void Budget::look_at_machine(const os::Cgroup& group) {
  const uint64_t node = resolve(options_->amount(OptionId::node_cap));
  if (node == 0) return look_at_group(group);
  share_of_machine_ = node / ranks_on_machine();
  char ledger[MachineLedger::kLongestPath];
  const bool fits =
      expand_file_name(options_->path(OptionId::ledger), find_place(), ledger, sizeof ledger);
  // The ledger itself reports what is wrong with a name.
  ledger_.boot(fits ? ledger : "too-long", node);
}

// Bounds all processes of a control group by the group's own limit.
void Budget::look_at_group(const os::Cgroup& group) {
  if (group.id == 0) return;
  const uint64_t share = group.limit / kGroupShare;
  const uint64_t kept = share > kProcessReserve ? share : kProcessReserve;
  group_cap_ = less(group.limit, kept);
  ledger_.boot(options_->path(OptionId::ledger), group_cap_, group.id);
  if (options_->choice(OptionId::populate) == kPopulateNow) note_ahead();
}

void Budget::set_memlock(uint64_t memlock) {
  memlock_ = memlock;
  lockable_ = memlock == os::kNoLimit ? memlock : less(memlock, resolve(headroom_));
  const uint64_t own = resolve(own_cap_);
  cap_by_ = share_of_machine_ < own ? LimitedBy::kMachine : LimitedBy::kCap;
  cap_ = share_of_machine_ < own ? share_of_machine_ : own;
}

// The capability comes and goes without a change of the soft limit. That it came is seen when there
// is no room, that it went by a refusal.
void Budget::look_at_memlock() {
  if (os::soft_lock_limit() != soft_) note_memlock(os::lock_limit());
}

void Budget::note_memlock(const os::LockLimit& limit) {
  soft_ = limit.soft;
  const uint64_t now = right_counts_ ? limit.effective() : limit.soft;
  if (now == memlock_) return;
  set_memlock(now);
  refused_ = false;
  refused_for_good_ = false;
  limit_pins(lockable_);
  if (pin_limit() < pinned()) pin_limit_ = pinned();
}

// Limits pins to the cap or to what can be locked, whichever is less.
void Budget::limit_pins(uint64_t lockable) {
  const bool by_memlock = lockable < cap_;
  pin_limit_ = os::page_floor(by_memlock ? lockable : cap_);
  pin_limited_by_ = by_memlock ? LimitedBy::kMemlock : cap_by_;
  limited_by_ = pin_limited_by_;
}

uint64_t Budget::reserve() const {
  const uint64_t share = memory() / kReserveShare;
  return share > kLeastReserve ? share : kLeastReserve;
}

uint64_t Budget::room_to_populate() const { return less(os::memory_left().to_populate, reserve()); }

uint64_t Budget::room_ahead() const {
  const uint64_t room = room_to_populate();
  if (room == 0 || group_cap_ == 0) return room;
  if (const size_t now = ledger_.sharers(); now != 0) sharers_ = now;
  const size_t sharers = sharers_;
  if (sharers == 0) return 0;
  const uint64_t shared = sharers == 1 ? group_cap_ : group_cap_ - group_cap_ / kNeverAhead;
  const uint64_t share = less(shared / sharers, os::resident_memory());
  return share < room ? share : room;
}

void Budget::note_ahead() {
  if (ledger_.is_of_group()) ledger_.enter({pinned(), held()});
}

// A heap grows by small steps while it is small, and each would read the kernel's files.
uint64_t Budget::room_to_pin(size_t want) {
  if (held() + want <= unchecked_until_) return want;
  const uint64_t room = room_to_populate();
  unchecked_step_ = std::min<uint64_t>(less(room, want) / kSharers, kUncheckedStep);
  return room;
}

uint64_t Budget::room_to_touch() const {
  const uint64_t share = memory() / kReserveShare;
  const uint64_t most = share < kMostLeft ? share : kMostLeft;
  return less(os::memory_left().to_touch, most > kLeastLeft ? most : kLeastLeft);
}

Grant Budget::ask_pinned(size_t need, size_t want) {
  if (held() + want > kUnlookedBytes || less(pin_limit(), pinned()) < need) look();
  look_at_memlock();
  const uint64_t left_to_hold = less(memory_cap(), held());
  if (left_to_hold < need) {
    // Name the limit on pins only if it is reached as well.
    if (less(pin_limit(), pinned()) >= need) limited_by_ = LimitedBy::kAvailable;
    return {};
  }
  if (refused_) look_at_locked();
  if (less(pin_limit(), pinned()) < need && pin_limited_by_ == LimitedBy::kMemlock) {
    note_memlock(os::lock_limit());
  }
  uint64_t room = less(pin_limit(), pinned());
  if (room > left_to_hold) room = left_to_hold;
  if (room >= need) {
    const uint64_t populatable = room_to_pin(want < room ? want : room);
    if (populatable < room) room = populatable;
    limited_by_ = room < need ? LimitedBy::kAvailable : pin_limited_by_;
  }
  if (room < need) return {};
  room = ask_machine(need, os::page_floor(want < room ? want : room));
  if (room < need) return {};
  return {os::page_floor(room), RegionKind::kPinned};
}

// Asked last, because the other processes can no longer use what it grants.
uint64_t Budget::ask_machine(uint64_t need, uint64_t want) {
  if (!ledger_.is_kept()) return want;
  // A process that stays small does not join a group's ledger: that would cost more than its whole
  // heap.
  if (ledger_.is_of_group() && held() + want <= kUncheckedBytes) return want;
  const uint64_t granted = ledger_.ask({pinned(), held()}, need, want);
  if (granted < need) {
    limited_by_ = ledger_.is_of_group() ? LimitedBy::kAvailable : LimitedBy::kMachine;
  }
  return granted;
}

Grant Budget::ask_overflow(size_t need, size_t want) const {
  return strict_ ? Grant{} : ask_unpinned(RegionKind::kOverflow, need, want);
}

Grant Budget::ask_unpinned(RegionKind kind, size_t need, size_t want) const {
  uint64_t left = less(memory_cap(), held());
  if (is_capped_ && left < need) return {};
  // The kernel refuses the same requests.
  if (need > machine_ && need > machine_ + os::total_swap()) return {};
  if (kind == RegionKind::kOverflow && held() + want > kUncheckedBytes) {
    const uint64_t room = room_to_touch();
    if (room == 0) return {};
    if (room < left) left = room;
  }
  if (left < need) left = need;
  return {os::page_floor(want < left ? want : left), kind};
}

void Budget::charge(RegionKind kind, size_t bytes) {
  held_ += bytes;
  if (unchecked_step_ != 0) unchecked_until_ = held() + unchecked_step_;
  unchecked_step_ = 0;
  switch (kind) {
    case RegionKind::kPinned:
      if (RDM_BROKEN(budget_is_not_charged)) break;
      pinned_ += bytes;
      if (pinned() > peak_pinned()) peak_pinned_ = pinned();
      break;
    case RegionKind::kOverflow:
      overflow_ += bytes;
      break;
    case RegionKind::kSparse:
      sparse_ += bytes;
      break;
  }
}

void Budget::release(RegionKind kind, size_t bytes) {
  held_ -= bytes;
  switch (kind) {
    case RegionKind::kPinned:
      pinned_ -= bytes;
      break;
    case RegionKind::kOverflow:
      overflow_ -= bytes;
      break;
    case RegionKind::kSparse:
      sparse_ -= bytes;
      break;
  }
}

void Budget::note_unlocked(size_t bytes) {
  pinned_ -= bytes;
  overflow_ += bytes;
}

void Budget::note_refusal(size_t bytes) {
  look();
  refused_ = true;
  const os::LockLimit limit = os::lock_limit();
  soft_ = limit.soft;
  // A capability that was refused does not count: it belongs to another user namespace.
  if (limit.unlimited_by_right) right_counts_ = false;
  set_memlock(limit.soft);
  look_at_locked();
  refused_for_good_ = less(pin_limit(), pinned()) >= bytes;
  look_at_locked();
}

void Budget::look_at_locked() {
  const uint64_t others = less(os::locked_memory(), pinned());
  limit_pins(refused_for_good_ ? 0 : less(lockable_, others));
  if (pin_limit() < pinned()) pin_limit_ = pinned();
}

void Budget::note_fork_child() {
  pinned_ = 0;
  peak_pinned_ = 0;
  ledger_.note_fork_child();
}

}  // namespace rdmalloc
