#include "allocator/budget.h"

#include "allocator/os/limits.h"
#include "allocator/os/memory.h"

namespace rdmalloc {
namespace {

// Below this the available memory is not looked at: reading it costs more than a small process
// spends on its whole heap.
constexpr size_t kUncheckedBytes = size_t{8} << 20;

// Left to the rest of the system when memory is populated: page tables, stacks, file cache.
constexpr uint64_t kLeastReserve = uint64_t{16} << 20;
constexpr uint64_t kReserveShare = 64;

// Of a small control group a share is too little for what a process has besides its heap: text,
// stacks, page tables, the engine's metadata.
constexpr uint64_t kProcessReserve = uint64_t{8} << 20;

uint64_t less(uint64_t from, uint64_t amount) { return from > amount ? from - amount : 0; }

size_t page_floor(uint64_t bytes) { return bytes & ~uint64_t{os::kPageSize - 1}; }

}  // namespace

const char* name(LimitedBy by) {
  switch (by) {
    case LimitedBy::kCap:
      return "cap";
    case LimitedBy::kMemlock:
      return "memlock";
    case LimitedBy::kAvailable:
      return "available";
  }
  return "?";
}

void Budget::boot(const Options& options) {
  const uint64_t total = os::total_memory();
  const uint64_t group = os::cgroup_limit();
  memory_ = group < total ? group : total;
  memlock_ = os::lock_limit().effective();
  memory_cap_ = resolve(options.amount(OptionId::memory_cap));
  const uint64_t reserve = memory_ / 2 < kProcessReserve ? memory_ / 2 : kProcessReserve;
  if (memory_cap_ > less(memory_, reserve)) memory_cap_ = less(memory_, reserve);
  strict_ = options.on(OptionId::strict);

  const uint64_t cap = resolve(options.amount(OptionId::cap));
  uint64_t lockable = memlock_;
  if (memlock_ != os::kNoLimit) {
    lockable = less(memlock_, resolve(options.amount(OptionId::headroom)));
  }
  const bool by_memlock = lockable < cap;
  pin_limit_ = page_floor(by_memlock ? lockable : cap);
  limited_by_ = by_memlock ? LimitedBy::kMemlock : LimitedBy::kCap;
}

uint64_t Budget::room_to_populate(size_t want) const {
  if (held() + want <= kUncheckedBytes) return want;
  const uint64_t share = memory_ / kReserveShare;
  return less(os::available_memory(), share > kLeastReserve ? share : kLeastReserve);
}

Grant Budget::ask(size_t need, size_t want) {
  const uint64_t left_to_hold = less(memory_cap_, held());
  if (left_to_hold < need) return {};
  uint64_t room = less(pin_limit(), pinned());
  if (room > left_to_hold) room = left_to_hold;
  if (room >= need) {
    const uint64_t populatable = room_to_populate(want < room ? want : room);
    if (populatable < room) room = populatable;
    if (room < need) limited_by_ = LimitedBy::kAvailable;
  }
  if (room >= need) return {page_floor(want < room ? want : room), RegionKind::kPinned};
  if (strict_) return {};
  return ask_unpinned(RegionKind::kOverflow, need, want);
}

Grant Budget::ask_unpinned(RegionKind kind, size_t need, size_t want) const {
  const uint64_t left = less(memory_cap_, held());
  if (left < need) return {};
  return {page_floor(want < left ? want : left), kind};
}

void Budget::charge(RegionKind kind, size_t bytes) {
  held_ += bytes;
  switch (kind) {
    case RegionKind::kPinned:
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

void Budget::note_refusal() {
  pin_limit_ = pinned();
  limited_by_ = LimitedBy::kMemlock;
}

void Budget::note_fork_child() {
  pinned_ = 0;
  peak_pinned_ = 0;
}

}  // namespace rdmalloc
