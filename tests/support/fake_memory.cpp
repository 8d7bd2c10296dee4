#include <pthread.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>

#include "allocator/os/newer_headers.h"
#include "allocator/os/topology.h"
#include "tests/support/fake_state.h"

namespace rdmalloc::fake {

State& state() {
  static State instance;
  // A thread can be inside the fake at a fork. These handlers come before the heap's, so that the
  // mutex is taken after the heap's locks, as each call takes it.
  static const int registered [[maybe_unused]] =
      pthread_atfork([] { instance.mutex.lock(); }, [] { instance.mutex.unlock(); },
                     [] { instance.mutex.unlock(); });
  return instance;
}

const char* name(Call call) {
  static constexpr const char* kNames[] = {
      "reserve",     "open",    "close",        "populate", "lock",    "seal",
      "prefer_node", "discard", "map_metadata", "move",     "give_up", "drop_page_tables"};
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

// Counts the call; true if it is to fail.
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

Range* holder(uintptr_t base, size_t bytes) {
  auto next = state().open.upper_bound(base);
  if (next == state().open.begin()) return nullptr;
  --next;
  Range& range = next->second;
  return range.end() >= base + bytes ? &range : nullptr;
}

// Splits the open range that holds this address, so that one begins there.
void split_at(uintptr_t address) {
  Range* const range = holder(address, 1);
  if (range == nullptr || range->base == address) return;
  Range upper = *range;
  const size_t below = address - range->base;
  upper.base += below;
  upper.bytes -= below;
  upper.origin += below;
  upper.discarded = 0;
  range->bytes = below;
  state().open[address] = upper;
}

// Calls visit(range) for every open part of [address, address + bytes), split at its ends. Returns
// how many bytes were open.
template <typename Visit>
size_t for_open(const void* address, size_t bytes, Visit visit) {
  const uintptr_t base = number(address);
  split_at(base);
  split_at(base + bytes);
  size_t sum = 0;
  for (auto at = state().open.lower_bound(base);
       at != state().open.end() && at->first < base + bytes; ++at) {
    sum += at->second.bytes;
    visit(at->second);
  }
  return sum;
}

// The same, but all of it must be open.
template <typename Visit>
void for_all(Call call, const void* address, size_t bytes, Visit visit) {
  if (bytes == 0 || bytes % os::page_size() != 0 || number(address) % os::page_size() != 0) {
    complain(call, "not whole pages", address, bytes);
  }
  if (for_open(address, bytes, visit) != bytes) complain(call, "not open", address, bytes);
}

size_t bytes_in(const std::map<uintptr_t, size_t>& ranges, const void* address, size_t bytes) {
  const uintptr_t from = number(address);
  size_t sum = 0;
  auto at = ranges.upper_bound(from);
  if (at != ranges.begin()) --at;
  for (; at != ranges.end() && at->first < from + bytes; ++at) {
    const uintptr_t low = std::max(from, at->first);
    const uintptr_t high = std::min(from + bytes, at->first + at->second);
    sum += low < high ? high - low : 0;
  }
  return sum;
}

// Whether the kernel would keep the two as one mapping.
bool are_one(const Range& lower, const Range& upper) {
  return lower.end() == upper.base && lower.origin + lower.bytes == upper.origin &&
         lower.kind == upper.kind && lower.node == upper.node && lower.locked == upper.locked &&
         lower.sealed == upper.sealed;
}

size_t count_mappings() {
  size_t count = 0;
  const Range* before = nullptr;
  for (const auto& [base, range] : state().open) {
    if (before == nullptr || !are_one(*before, range)) ++count;
    if (before != nullptr && before->end() != base) ++count;  // the reserved gap between them
    before = &range;
  }
  return count;
}

bool is_one_mapping(const void* address, size_t bytes) {
  Range before;
  bool one = true;
  const size_t open = for_open(address, bytes, [&](const Range& range) {
    one = one && (before.bytes == 0 || are_one(before, range));
    before = range;
  });
  return one && open == bytes;
}

void erase_open(uintptr_t base, size_t bytes) {
  split_at(base);
  split_at(base + bytes);
  auto& open = state().open;
  open.erase(open.lower_bound(base), open.lower_bound(base + bytes));
}

void close_for_real(const void* address, size_t bytes) {
  mmap(const_cast<void*>(address), bytes, PROT_NONE,
       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

// Moves the real pages too, however the kernel has split them.
void move_for_real(uintptr_t from, size_t bytes, uintptr_t to) {
  for (size_t step = bytes, done = 0; done < bytes;) {
    if (step > bytes - done) step = bytes - done;
    auto* const source = reinterpret_cast<void*>(from + done);
    auto* const target = reinterpret_cast<void*>(to + done);
    if (mremap(source, step, step, MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, target) ==
        target) {
      close_for_real(source, step);
      done += step;
    } else if (step > os::page_size()) {
      step = os::page_ceil(step / 2);
    } else {
      complain(Call::kMove, "the kernel under the test refuses to move it", source, step);
      return;
    }
  }
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
  all.vacated.clear();
  all.left.clear();
  all.destroyed.clear();
  all.dropped_tables.clear();
  all.split_moves = 0;
  all.held.clear();
  all.huge_pages_used = 0;
  all.cpu_ns = 0;
  __atomic_store_n(&all.time_ns, 0, __ATOMIC_RELAXED);
  all.violations.clear();
}

Machine& machine() { return state().machine; }
std::vector<std::string>& environment() { return state().environment; }

void touch(const void* address, size_t bytes, int node) {
  const Guard guard(state().mutex);
  for_all(Call::kPopulate, address, bytes, [&](Range& range) {
    if (range.touched < 0) range.touched = range.node < 0 ? node : range.node;
  });
}

int node_of_pages(const void* address, size_t bytes) {
  const Guard guard(state().mutex);
  std::map<int, size_t> bytes_on;
  size_t sum = 0;
  for (const auto& [base, range] : state().open) {
    const uintptr_t from = std::max(base, number(address));
    const uintptr_t to = std::min(range.end(), number(address) + bytes);
    if (range.touched < 0 || from >= to) continue;
    bytes_on[range.touched] += to - from;
    sum += to - from;
  }
  for (const auto& [node, there] : bytes_on) {
    if (there * 2 > sum) return node;
  }
  return sum == 0 ? os::kNoNode : os::kSeveralNodes;
}

void destroy(const void* address, size_t bytes) {
  const Guard guard(state().mutex);
  (void)for_open(address, bytes, [](const Range& range) {
    if (range.kind == os::PageKind::kHugetlb) {
      state().huge_pages_used -= range.bytes / state().machine.hugetlb_page;
    }
  });
  erase_open(number(address), bytes);
  state().destroyed[number(address)] = bytes;
  mmap(const_cast<void*>(address), bytes, PROT_READ | PROT_WRITE,
       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  for (size_t at = 0; at < bytes; at += os::page_size()) {
    const void* const page = static_cast<const char*>(address) + at;
    if (bytes_in(state().left, page, os::page_size()) == 0) {
      state().left[number(page)] = os::page_size();
    }
  }
}

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

size_t mappings() {
  const Guard guard(state().mutex);
  return count_mappings();
}

size_t split_moves() {
  const Guard guard(state().mutex);
  return state().split_moves;
}

std::vector<Range> ranges_in(const void* address, size_t bytes) {
  const Guard guard(state().mutex);
  std::vector<Range> all;
  (void)for_open(address, bytes, [&](const Range& range) { all.push_back(range); });
  return all;
}

size_t opened_in(const void* address, size_t bytes) {
  size_t sum = 0;
  for (const Range& range : ranges_in(address, bytes)) sum += range.bytes;
  return sum;
}

size_t left_in(const void* address, size_t bytes) {
  const Guard guard(state().mutex);
  return bytes_in(state().left, address, bytes);
}

bool has_dropped_table(const void* address) {
  const Guard guard(state().mutex);
  return state().dropped_tables.count(number(address)) != 0;
}

size_t vacated() {
  const Guard guard(state().mutex);
  size_t sum = 0;
  for (const auto& [base, bytes] : state().vacated) sum += bytes;
  return sum;
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
  if (for_open(address, bytes, [](const Range&) {}) != bytes) {
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

void* reserve(size_t bytes, size_t alignment, size_t) {
  const Guard guard(state().mutex);
  Status status{};
  if (fake::fails(Call::kReserve, &status)) return nullptr;
  if (bytes > state().machine.largest_reservation) return nullptr;
  const size_t padded = bytes + alignment;
  // Touching a page must not bring in its neighbours.
  prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
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
  if (fake::overlaps(state().left, base, bytes, fake::length_of) ||
      fake::overlaps(state().vacated, base, bytes, fake::length_of)) {
    fake::complain(Call::kOpen, "moved away", address, bytes);
  }
  // Reopening an untouched range is allowed: a caller whose move was refused need not ask whether
  // the target is still there.
  bool is_new = true;
  (void)fake::for_open(address, bytes, [&](const Range& range) {
    is_new = is_new && !range.locked && !range.populated && range.kind == kind;
  });
  if (!is_new) fake::complain(Call::kOpen, "open already", address, bytes);
  Status status{};
  if (fake::fails(Call::kOpen, &status)) return status;
  if (kind == PageKind::kHugetlb) {
    const size_t page = state().machine.hugetlb_page;
    if (bytes % page != 0 || base % page != 0) {
      fake::complain(Call::kOpen, "not whole huge pages", address, bytes);
    }
    const uint64_t pages = bytes / page;
    if (state().huge_pages_used + pages > state().machine.huge_pages) return Status::kNoMemory;
    state().huge_pages_used += pages;
  }
  if (mprotect(address, bytes, PROT_READ | PROT_WRITE) != 0) return Status::kNoMemory;
  fake::erase_open(base, bytes);
  Range range;
  range.base = range.origin = base;
  range.bytes = bytes;
  range.kind = kind;
  state().open[base] = range;
  return Status::kOk;
}

namespace {

void close_checked(void* address, size_t bytes) {
  const uintptr_t base = fake::number(address);
  if (!fake::reserved(base, bytes)) fake::complain(Call::kClose, "not reserved", address, bytes);
  if (fake::overlaps(state().held, base, bytes, fake::length_of)) {
    fake::complain(Call::kClose, "in use", address, bytes);
  }
  (void)fake::for_open(address, bytes, [&](const Range& range) {
    if (range.sealed) fake::complain(Call::kClose, "sealed", address, bytes);
    if (range.kind == PageKind::kHugetlb) {
      state().huge_pages_used -= range.bytes / state().machine.hugetlb_page;
    }
  });
  fake::erase_open(base, bytes);
  fake::close_for_real(address, bytes);
}

}  // namespace

void close(void* address, size_t bytes) {
  const Guard guard(state().mutex);
  Status ignored{};
  (void)fake::fails(Call::kClose, &ignored);
  close_checked(address, bytes);
}

bool moves_locks() { return state().machine.moves_locks; }

Status move(void* from, size_t bytes, void* to) {
  const Guard guard(state().mutex);
  const uintptr_t source = fake::number(from);
  const uintptr_t target = fake::number(to);
  if (!fake::reserved(target, bytes)) fake::complain(Call::kMove, "not reserved", to, bytes);
  if (fake::overlaps(state().left, target, bytes, fake::length_of)) {
    fake::complain(Call::kMove, "to what was moved away", to, bytes);
  }
  (void)fake::for_open(to, bytes, [&](const Range& range) {
    if (range.locked || range.populated) {
      fake::complain(Call::kMove, "to what is in use", to, bytes);
    }
  });
  if (fake::overlaps(state().held, source, bytes, fake::length_of)) {
    fake::complain(Call::kMove, "in use", from, bytes);
  }
  fake::for_all(Call::kMove, from, bytes, [&](const Range& range) {
    if (range.sealed) fake::complain(Call::kMove, "sealed", from, bytes);
    if (range.locked && !state().machine.moves_locks) {
      fake::complain(Call::kMove, "locked", from, bytes);
    }
    if (range.kind == PageKind::kHugetlb) fake::complain(Call::kMove, "hugetlb", from, bytes);
  });
  const auto refuse = [&](Status why) {
    if (state().machine.refusals_take) {
      fake::erase_open(target, bytes);
      fake::close_for_real(to, bytes);
    }
    return why;
  };
  Status status{};
  if (fake::fails(Call::kMove, &status)) return refuse(status);
  if (!fake::is_one_mapping(from, bytes)) {
    ++state().split_moves;
    return Status::kRefused;
  }
  const fake::Machine& machine = state().machine;
  if (machine.limits_mappings && fake::count_mappings() + 3 > machine.most_mappings) {
    return refuse(Status::kNoMemory);
  }
  fake::erase_open(target, bytes);
  std::vector<Range> moved;
  (void)fake::for_open(from, bytes, [&](const Range& range) { moved.push_back(range); });
  fake::erase_open(source, bytes);
  for (Range& range : moved) {
    range.base = range.base - source + target;
    state().open[range.base] = range;
  }
  state().vacated[source] = bytes;
  fake::move_for_real(source, bytes, target);
  state().cpu_ns += machine.move_takes_ns;
  return Status::kOk;
}

void leave(void* address, size_t bytes) {
  const Guard guard(state().mutex);
  const uintptr_t base = fake::number(address);
  size_t sum = 0;
  auto at = state().vacated.lower_bound(base);
  while (at != state().vacated.end() && at->first < base + bytes) {
    sum += at->second;
    at = state().vacated.erase(at);
  }
  if (sum != bytes) fake::complain(Call::kMove, "left, and not moved", address, bytes);
  state().left[base] = bytes;
}

bool give_up(void* address, size_t bytes) {
  const Guard guard(state().mutex);
  Status ignored{};
  if (fake::fails(Call::kGiveUp, &ignored)) return false;
  close_checked(address, bytes);
  state().left[fake::number(address)] = bytes;
  return true;
}

void drop_page_tables(void* address, size_t bytes) {
  const Guard guard(state().mutex);
  Status ignored{};
  (void)fake::fails(Call::kDropPageTables, &ignored);
  if (fake::number(address) % page_table_reach() != 0 || bytes % page_table_reach() != 0) {
    fake::complain(Call::kDropPageTables, "not whole tables", address, bytes);
  }
  if (!fake::reserved(fake::number(address), bytes) ||
      fake::for_open(address, bytes, [](const Range&) {}) != 0 ||
      fake::overlaps(state().destroyed, fake::number(address), bytes, fake::length_of)) {
    fake::complain(Call::kDropPageTables, "something is there", address, bytes);
  }
  for (size_t at = 0; at < bytes; at += page_table_reach()) {
    state().dropped_tables.insert(fake::number(address) + at);
  }
  fake::close_for_real(address, bytes);
}

Status populate(void* address, size_t bytes) {
  const auto faults_of = [](const Range& range) {
    const bool huge = range.kind == PageKind::kTransparentHuge && state().machine.makes_huge;
    return range.bytes / (huge ? state().machine.huge_page : page_size());
  };
  const Guard guard(state().mutex);
  // Only recorded: a test may populate more than this machine has.
  std::vector<Range*> all;
  const size_t open = fake::for_open(address, bytes, [&](Range& range) { all.push_back(&range); });
  const size_t gone = fake::bytes_in(state().left, address, bytes) +
                      fake::bytes_in(state().vacated, address, bytes);
  if (open + gone != bytes) fake::complain(Call::kPopulate, "not open", address, bytes);
  Status status{};
  if (fake::fails(Call::kPopulate, &status)) return status;
  if (gone != 0) return Status::kRefused;  // moved away since the caller looked
  for (Range* range : all) {
    if (!range->populated) {
      state().page_faults += faults_of(*range);
      if (range->kind == PageKind::kTransparentHuge && state().machine.huge_takes_us != 0) {
        usleep(static_cast<useconds_t>(faults_of(*range) * state().machine.huge_takes_us));
      }
      if (range->kind == PageKind::kBase && state().machine.base_takes_us != 0) {
        usleep(static_cast<useconds_t>(range->bytes * state().machine.base_takes_us >> 20));
      }
    }
    range->populated = true;
  }
  return Status::kOk;
}

Status lock_on_fault(void* address, size_t bytes) {
  const Guard guard(state().mutex);
  std::vector<Range*> all;
  size_t more = 0;
  fake::for_all(Call::kLock, address, bytes, [&](Range& range) {
    all.push_back(&range);
    more += range.locked ? 0 : range.bytes;
  });
  Status status{};
  if (fake::fails(Call::kLock, &status)) return status;
  const uint64_t locked = fake::locked_bytes() + state().machine.locked_by_others;
  const uint64_t limit = state().machine.lock.effective();
  if (limit < locked || limit - locked < more) return Status::kOutOfBudget;
  for (Range* range : all) range->locked = true;
  return Status::kOk;
}

Status lock_opened(void* address, size_t bytes, PageKind) { return lock_on_fault(address, bytes); }

void note_fork_child() {}

void unlock(void* address, size_t bytes) {
  const Guard guard(state().mutex);
  (void)fake::for_open(address, bytes, [](Range& range) { range.locked = false; });
}

bool make_accessible(void* address, size_t bytes) {
  if (!state().machine.gives_rights) {
    fake::destroy(address, bytes);
    return false;
  }
  return mprotect(address, bytes, PROT_READ | PROT_WRITE) == 0;
}

// Only tests with real processes change pages behind the allocator's back.
bool is_mapped(const void*, size_t) { return true; }
void reserve_hole(void*, size_t) {}
void copy_readable(void* to, const void* from, size_t bytes) { memcpy(to, from, bytes); }

Status seal(void* address, size_t bytes) {
  const Guard guard(state().mutex);
  std::vector<Range*> all;
  fake::for_all(Call::kSeal, address, bytes, [&](Range& range) { all.push_back(&range); });
  Status status{};
  if (fake::fails(Call::kSeal, &status)) return status;
  for (Range* range : all) range->sealed = true;
  return Status::kOk;
}

Status prefer_node(void* address, size_t bytes, int node) {
  const Guard guard(state().mutex);
  std::vector<Range*> all;
  fake::for_all(Call::kPreferNode, address, bytes, [&](Range& range) {
    all.push_back(&range);
    if (range.populated) fake::complain(Call::kPreferNode, "populated already", address, bytes);
  });
  Status status{};
  if (fake::fails(Call::kPreferNode, &status)) return status;
  for (Range* range : all) range->node = node;
  return Status::kOk;
}

Status discard(void* address, size_t bytes) {
  const Guard guard(state().mutex);
  if (fake::bytes_in(state().metadata, address, bytes) == bytes) {  // of a table
    madvise(address, bytes, MADV_DONTNEED);
    return Status::kOk;
  }
  std::vector<Range*> all;
  fake::for_all(Call::kDiscard, address, bytes, [&](Range& range) {
    all.push_back(&range);
    if (range.locked) fake::complain(Call::kDiscard, "locked", address, bytes);
  });
  Status status{};
  if (fake::fails(Call::kDiscard, &status)) return status;
  for (Range* range : all) {
    range->discarded += range->bytes;
    range->populated = false;
    range->touched = -1;
  }
  madvise(address, bytes, MADV_DONTNEED);
  return Status::kOk;
}

// Populated or touched; the real kernel knows.
size_t resident_bytes(const void* address, size_t bytes) {
  const Guard guard(state().mutex);
  size_t sum = 0;
  (void)fake::for_open(address, bytes, [&](const Range& range) {
    for (uintptr_t page = range.base; page < range.end(); page += page_size()) {
      unsigned char is_there = 0;
      mincore(reinterpret_cast<void*>(page), page_size(), &is_there);
      sum += range.populated || (is_there & 1) != 0 ? page_size() : 0;
    }
  });
  return sum;
}

namespace {

void* map_noted(size_t bytes, int rights) {
  const Guard guard(state().mutex);
  Status status{};
  if (fake::fails(Call::kMapMetadata, &status)) return nullptr;
  void* const got =
      mmap(nullptr, bytes, rights, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (got == MAP_FAILED) return nullptr;
  state().metadata[fake::number(got)] = bytes;
  return got;
}

}  // namespace

void* map_metadata(size_t bytes) { return map_noted(bytes, PROT_READ | PROT_WRITE); }
void* reserve_table(size_t bytes, bool is_readable) {
  return map_noted(bytes, is_readable ? PROT_READ : PROT_NONE);
}
bool open_table(void* address, size_t bytes) {
  const Guard guard(state().mutex);
  Status status{};
  return !fake::fails(Call::kMapMetadata, &status) &&
         mprotect(address, bytes, PROT_READ | PROT_WRITE) == 0;
}
void* map_table(size_t bytes) { return map_metadata(bytes); }
void map_tables_ahead(size_t) {}
void renew_table(void* address, size_t bytes) {
  const Guard guard(state().mutex);
  mmap(address, bytes, PROT_READ | PROT_WRITE,
       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}
void drop_zeros(const void*, const void*) {}

void unmap_metadata(void* address, size_t bytes) {
  const Guard guard(state().mutex);
  state().metadata.erase(fake::number(address));
  munmap(address, bytes);
}

void ask_for_base_pages(void* address, size_t bytes) {
  const Guard guard(state().mutex);
  (void)fake::for_open(address, bytes, [&](Range& range) { range.kind = PageKind::kBase; });
}

uint64_t page_faults() {
  const Guard guard(state().mutex);
  return state().page_faults;
}

}  // namespace rdmalloc::os
