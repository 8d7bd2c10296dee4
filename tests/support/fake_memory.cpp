#include <sys/mman.h>

#include <sstream>

#include "tests/support/fake_state.h"

namespace rdmalloc::fake {

State& state() {
  static State instance;
  return instance;
}

const char* name(Call call) {
  static constexpr const char* kNames[] = {
      "reserve", "open",        "close",   "populate",     "lock",
      "seal",    "prefer_node", "discard", "map_metadata", "transparent_huge_bytes"};
  return kNames[static_cast<size_t>(call)];
}

namespace {

using Guard = std::lock_guard<std::mutex>;

uintptr_t number(const void* address) { return reinterpret_cast<uintptr_t>(address); }

void complain(Call call, const char* why, const void* address, size_t bytes) {
  std::ostringstream text;
  text << name(call) << "(" << address << ", " << bytes << "): " << why;
  state().violations.push_back(text.str());
}

// Counts the call; true when it shall fail.
bool fails(Call call, Status* status) {
  const auto index = static_cast<size_t>(call);
  ++state().counts[index];
  Fault& fault = state().faults[index];
  if (fault.countdown == 0) return false;
  if (fault.countdown > 1) {
    --fault.countdown;
    return false;
  }
  if (!fault.for_ever) fault.countdown = 0;
  *status = fault.status;
  return true;
}

template <typename Value>
bool overlaps(const std::map<uintptr_t, Value>& ranges, uintptr_t base, size_t bytes,
              size_t (*length)(const Value&)) {
  auto next = ranges.lower_bound(base + bytes);
  if (next == ranges.begin()) return false;
  --next;
  return next->first + length(next->second) > base;
}

size_t length_of(const size_t& bytes) { return bytes; }
size_t length_of_range(const Range& range) { return range.bytes; }

Range* holder(uintptr_t base, size_t bytes) {
  auto next = state().open.upper_bound(base);
  if (next == state().open.begin()) return nullptr;
  --next;
  Range& range = next->second;
  return range.base + range.bytes >= base + bytes ? &range : nullptr;
}

// The open range that is exactly this one: what is locked, bound or sealed is so as a whole.
Range* exactly(Call call, const void* address, size_t bytes) {
  Range* range = holder(number(address), bytes);
  if (range == nullptr) {
    complain(call, "not open", address, bytes);
  } else if (range->base != number(address) || range->bytes != bytes) {
    complain(call, "not a whole range", address, bytes);
  }
  return range;
}

bool reserved(uintptr_t base, size_t bytes) {
  auto next = state().reservations.upper_bound(base);
  if (next == state().reservations.begin()) return false;
  --next;
  return next->first + next->second >= base + bytes;
}

size_t locked_bytes() {
  size_t sum = 0;
  for (const auto& [base, range] : state().open) sum += range.locked ? range.bytes : 0;
  return sum;
}

}  // namespace

void reset() {
  State& all = state();
  const Guard guard(all.mutex);
  for (const auto& [base, bytes] : all.reservations) munmap(reinterpret_cast<void*>(base), bytes);
  for (const auto& [base, bytes] : all.metadata) munmap(reinterpret_cast<void*>(base), bytes);
  all.machine = {};
  all.environment.clear();
  for (size_t i = 0; i < kCalls; ++i) {
    all.counts[i] = 0;
    all.faults[i] = {};
  }
  all.reservations.clear();
  all.metadata.clear();
  all.open.clear();
  all.held.clear();
  all.huge_pages_used = 0;
  all.violations.clear();
}

Machine& machine() { return state().machine; }
std::vector<std::string>& environment() { return state().environment; }

void fail(Call call, size_t k, Status status) {
  const Guard guard(state().mutex);
  state().faults[static_cast<size_t>(call)] = {k, false, status};
}

void fail_from(Call call, size_t k, Status status) {
  const Guard guard(state().mutex);
  state().faults[static_cast<size_t>(call)] = {k, true, status};
}

void fail_nothing() {
  const Guard guard(state().mutex);
  for (Fault& fault : state().faults) fault = {};
}

size_t calls(Call call) {
  const Guard guard(state().mutex);
  return state().counts[static_cast<size_t>(call)];
}

size_t opened() {
  const Guard guard(state().mutex);
  size_t sum = 0;
  for (const auto& [base, range] : state().open) sum += range.bytes;
  return sum;
}

size_t locked() {
  const Guard guard(state().mutex);
  return locked_bytes();
}

size_t metadata_bytes() {
  const Guard guard(state().mutex);
  size_t sum = 0;
  for (const auto& [base, bytes] : state().metadata) sum += bytes;
  return sum;
}

std::vector<Range> ranges() {
  const Guard guard(state().mutex);
  std::vector<Range> all;
  for (const auto& [base, range] : state().open) all.push_back(range);
  return all;
}

Range range_of(const void* address) {
  const Guard guard(state().mutex);
  const Range* range = holder(number(address), 1);
  return range == nullptr ? Range{} : *range;
}

void hold(const void* address, size_t bytes) {
  const Guard guard(state().mutex);
  if (overlaps(state().held, number(address), bytes, length_of)) {
    state().violations.emplace_back("memory that is in use was handed out again");
  }
  if (holder(number(address), bytes) == nullptr) {
    state().violations.emplace_back("memory that is not open was handed out");
  }
  state().held[number(address)] = bytes;
}

void drop(const void* address) {
  const Guard guard(state().mutex);
  state().held.erase(number(address));
}

std::vector<std::string> violations() {
  const Guard guard(state().mutex);
  return state().violations;
}

}  // namespace rdmalloc::fake

namespace rdmalloc::os {

using fake::Call;
using fake::Guard;
using fake::Range;
using fake::state;

void* reserve(size_t bytes, size_t alignment) {
  const Guard guard(state().mutex);
  Status status{};
  if (fake::fails(Call::kReserve, &status)) return nullptr;
  if (bytes > state().machine.largest_reservation) return nullptr;
  const size_t padded = bytes + alignment;
  void* raw = mmap(nullptr, padded, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (raw == MAP_FAILED) return nullptr;
  const uintptr_t base = (fake::number(raw) + alignment - 1) & ~(alignment - 1);
  munmap(raw, base - fake::number(raw));
  munmap(reinterpret_cast<void*>(base + bytes), fake::number(raw) + padded - (base + bytes));
  state().reservations[base] = bytes;
  return reinterpret_cast<void*>(base);
}

Status open(void* address, size_t bytes, PageKind kind) {
  const Guard guard(state().mutex);
  const uintptr_t base = fake::number(address);
  if (!fake::reserved(base, bytes)) fake::complain(Call::kOpen, "not reserved", address, bytes);
  if (fake::overlaps(state().open, base, bytes, fake::length_of_range)) {
    fake::complain(Call::kOpen, "open already", address, bytes);
  }
  Status status{};
  if (fake::fails(Call::kOpen, &status)) return status;
  if (kind == PageKind::kHugetlb) {
    if (bytes % kHugePageSize != 0 || base % kHugePageSize != 0) {
      fake::complain(Call::kOpen, "not whole huge pages", address, bytes);
    }
    const uint64_t pages = bytes / kHugePageSize;
    if (state().huge_pages_used + pages > state().machine.huge_pages) return Status::kNoMemory;
    state().huge_pages_used += pages;
  }
  if (mprotect(address, bytes, PROT_READ | PROT_WRITE) != 0) return Status::kNoMemory;
  Range range;
  range.base = base;
  range.bytes = bytes;
  range.kind = kind;
  state().open[base] = range;
  return Status::kOk;
}

void close(void* address, size_t bytes) {
  const Guard guard(state().mutex);
  Status ignored{};
  (void)fake::fails(Call::kClose, &ignored);
  const Range* range = fake::exactly(Call::kClose, address, bytes);
  if (range == nullptr) return;
  if (range->sealed) fake::complain(Call::kClose, "sealed", address, bytes);
  if (fake::overlaps(state().held, fake::number(address), bytes, fake::length_of)) {
    fake::complain(Call::kClose, "in use", address, bytes);
  }
  if (range->kind == PageKind::kHugetlb) state().huge_pages_used -= bytes / kHugePageSize;
  state().open.erase(range->base);
  mmap(address, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

Status populate(void* address, size_t bytes) {
  const Guard guard(state().mutex);
  Range* range = fake::exactly(Call::kPopulate, address, bytes);
  Status status{};
  if (fake::fails(Call::kPopulate, &status)) return status;
  // Only written down: a test may populate more than the machine has.
  if (range != nullptr) range->populated = true;
  return Status::kOk;
}

Status lock(void* address, size_t bytes) {
  const Guard guard(state().mutex);
  Range* range = fake::exactly(Call::kLock, address, bytes);
  if (range != nullptr && !range->populated) {
    fake::complain(Call::kLock, "not populated", address, bytes);
  }
  Status status{};
  if (fake::fails(Call::kLock, &status)) return status;
  const uint64_t locked = fake::locked_bytes() + state().machine.locked_by_others;
  const uint64_t limit = state().machine.lock.effective();
  if (limit < locked || limit - locked < bytes) return Status::kOutOfBudget;
  if (range != nullptr) range->locked = true;
  return Status::kOk;
}

void unlock(void* address, size_t bytes) {
  const Guard guard(state().mutex);
  if (Range* range = fake::holder(fake::number(address), bytes)) range->locked = false;
}

Status seal(void* address, size_t bytes) {
  const Guard guard(state().mutex);
  Range* range = fake::exactly(Call::kSeal, address, bytes);
  Status status{};
  if (fake::fails(Call::kSeal, &status)) return status;
  if (range != nullptr) range->sealed = true;
  return Status::kOk;
}

Status prefer_node(void* address, size_t bytes, int node) {
  const Guard guard(state().mutex);
  Range* range = fake::exactly(Call::kPreferNode, address, bytes);
  if (range != nullptr && range->populated) {
    fake::complain(Call::kPreferNode, "populated already", address, bytes);
  }
  Status status{};
  if (fake::fails(Call::kPreferNode, &status)) return status;
  if (range != nullptr) range->node = node;
  return Status::kOk;
}

Status discard(void* address, size_t bytes) {
  const Guard guard(state().mutex);
  Range* range = fake::holder(fake::number(address), bytes);
  if (range == nullptr) {
    fake::complain(Call::kDiscard, "not open", address, bytes);
    return Status::kNoMemory;
  }
  if (range->locked) fake::complain(Call::kDiscard, "locked", address, bytes);
  Status status{};
  if (fake::fails(Call::kDiscard, &status)) return status;
  range->discarded += bytes;
  madvise(address, bytes, MADV_DONTNEED);
  return Status::kOk;
}

void* map_metadata(size_t bytes) {
  const Guard guard(state().mutex);
  Status status{};
  if (fake::fails(Call::kMapMetadata, &status)) return nullptr;
  void* got = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (got == MAP_FAILED) return nullptr;
  state().metadata[fake::number(got)] = bytes;
  return got;
}

size_t transparent_huge_bytes(const void* address, size_t bytes) {
  const Guard guard(state().mutex);
  Status status{};
  if (fake::fails(Call::kTransparentHugeBytes, &status)) return 0;
  const Range* range = fake::holder(fake::number(address), bytes);
  const bool huge = range != nullptr && range->kind == PageKind::kTransparentHuge;
  return huge && state().machine.makes_huge ? bytes : 0;
}

}  // namespace rdmalloc::os
