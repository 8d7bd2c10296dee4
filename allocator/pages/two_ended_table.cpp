#include "allocator/pages/two_ended_table.h"

#include <algorithm>

#include "allocator/os/memory.h"

namespace rdmalloc {
namespace {

// One call covers 32 MiB of window or more.
constexpr size_t kStep = size_t{64} << 10;

}  // namespace

Status TwoEndedTable::boot(size_t bytes, Rest rest) {
  to_ = os::align_up(bytes, kStep);
  memory_ = static_cast<char*>(os::reserve_table(to_, rest == Rest::kZero));
  return memory_ == nullptr ? Status::kNoMemory : Status::kOk;
}

bool TwoEndedTable::cover(size_t from, size_t to) {
  from = std::max(os::align_down(from, kStep), from_);
  to = std::min(os::align_up(to, kStep), to_);
  if (from >= to) return true;
  const bool is_low = to - from_ <= to_ - from;
  if (is_low) {
    from = from_;
  } else {
    to = to_;
  }
  if (!os::open_table(memory_ + from, to - from)) return false;
  (is_low ? from_ : to_) = is_low ? to : from;
  __atomic_fetch_add(&covered_, to - from, __ATOMIC_RELAXED);
  return true;
}

}  // namespace rdmalloc
