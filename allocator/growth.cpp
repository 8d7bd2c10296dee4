// The part of the heap that acquires regions: how much at a time, from what budget, and how a new
// region becomes known. All of it runs under the growth lock.
#include "allocator/heap.h"
#include "allocator/message.h"
#include "allocator/os/clock.h"
#include "allocator/os/limits.h"

namespace rdmalloc {
namespace {

// The first regions are small, because most processes are: /bin/true needs about 100 KiB.
constexpr size_t kFirstStep = size_t{128} << 10;
constexpr size_t kLargestStep = size_t{1} << 30;
// Then each is a share of what is held: a large share while that is little, so that the number of
// regions stays low; a smaller one later, so that little is held ahead of need.
constexpr size_t kEarlyShare = 4;
constexpr size_t kLargestEarlyStep = size_t{4} << 20;
constexpr size_t kShare = 10;

constexpr size_t kFewGranules = 512;

// How long a refusal to pin more stands where there is free memory that is not pinned.
constexpr uint64_t kPauseNs = 1'000'000;

constexpr size_t huge_floor(size_t bytes) { return os::align_down(bytes, os::kHugePageSize); }

}  // namespace

size_t Heap::next_step(size_t held) const {
  size_t step = held / kEarlyShare;
  if (step > kLargestEarlyStep) step = kLargestEarlyStep;
  if (step < held / kShare) step = held / kShare;
  if (step < kFirstStep) step = kFirstStep;
  // In a window that RLIMIT_AS made small, regions below a granule would use it up.
  if (window_.granules() < kFewGranules && step < Window::kGranule) {
    step = Window::kGranule - os::kPageSize;
  }
  if (step > kLargestStep) step = kLargestStep;
  return os::page_ceil(step);
}

// What would be acquired for a request: its own size and a step to spare.
size_t Heap::wanted(const Request& request) const {
  const size_t size = request.size;
  const size_t step = next_step(request.exposed ? exposed_held_ : budget_.held());
  const bool huge = options_.choice(OptionId::huge) != kHugeOff;
  // With a step to spare: a region of exactly what is needed leaves no room for what is needed
  // next, and an object that grows by realloc would leave one behind at every size.
  size_t want = size < kFirstStep ? step : size + step;
  if (want > kLargestStep) want = size > kLargestStep ? size : kLargestStep;
  // Whole huge pages, of either kind: with a tail of base pages the kernel registers the whole
  // region page by page, in ten times the time.
  if (huge && want >= os::kHugePageSize) {
    want = huge_floor(want);
    if (want < size) want = os::align_up(size, os::kHugePageSize);
  }
  return want;
}

Heap::Taken Heap::grow(const Request& request) {
  // Where nothing could be pinned a moment ago: to ask again, for each extent, would read files of
  // the kernel for each.
  const uint64_t now = os::now_ns();
  if (now < ask_again_from_ && !request.exposed) {
    if (const Taken taken = take(request, Where::kAnywhere)) return taken;
  }
  const size_t want = wanted(request);
  Grant grant = budget_.ask_pinned(request.size, want);
  warn_of_ledger();
  if (grant.bytes == 0) {
    ask_again_from_ = now + kPauseNs;
    // Before asking how much memory there is, which reads such files, too.
    if (const Taken taken = take(request, Where::kAnywhere)) return taken;
    if (!request.exposed) grant = budget_.ask_overflow(request.size, want);
  }
  if (grant.bytes == 0) return {};
  const bool hugetlb = options_.choice(OptionId::huge) == kHugeHugetlb;
  if (hugetlb && huge_floor(grant.bytes) >= request.size) grant.bytes = huge_floor(grant.bytes);
  const Taken taken = acquire(grant, request);
  budget_.settle();
  return taken ? taken : take(request, Where::kAnywhere);
}

bool Heap::reserve(size_t bytes) {
  Request request{os::page_ceil(bytes), os::kPageSize, node_here()};
  request.pinned = true;
  Taken taken;
  {
    Locked hold(growth_);
    const Grant grant = budget_.ask_pinned(request.size, request.size);
    warn_of_ledger();
    if (grant.bytes >= request.size) taken = acquire(grant, request);
    budget_.settle();
  }
  return taken && release(taken.address, request.size);
}

// Zero length: no region, and nothing happened.
Region Heap::make(Grant grant, const Request& request) {
  if (!regions_.has_room()) return {};
  const bool may_overflow = !options_.on(OptionId::strict) && !request.exposed && !request.pinned;
  RegionOrder order;
  order.kind = grant.kind;
  order.length = grant.bytes;
  order.alignment = request.alignment;
  order.node = request.node;
  order.exposed = request.exposed;
  order.may_overflow = may_overflow && grant.bytes == request.size;
  const Region region = maker_.make(order);
  if (region.length != 0 || grant.bytes == request.size) return region;
  // The window, the kernel or a limit may have refused only what was to spare.
  order.length = request.size;
  order.may_overflow = may_overflow;
  return maker_.make(order);
}

// The region is known to all observers when this returns, and its first extent is taken: other
// threads, who need no growth lock to take, could use it up at once. Nothing taken: nothing
// happened.
Heap::Taken Heap::acquire(Grant grant, const Request& request) {
  const uint64_t started = os::now_ns();
  Region region = make(grant, request);
  if (region.length == 0) return {};
  if (!prepare(&region)) {
    maker_.undo(region);
    return {};
  }
  maker_.finish(&region);
  const Region* added = publish(region);
  acquire_ns_ += os::now_ns() - started;
  if (region.kind == RegionKind::kOverflow) warn_of_overflow();
  Locked hold(pool_);
  if (budget_.held() > peak_held_) peak_held_ = budget_.held();
  counters_.note_budget(budget_, regions_.size());
  if (budget_.held() >= counters_from_) share_counters();
  pool_of(*added).add(reinterpret_cast<void*>(region.base), region.length);
  const Taken taken = take_from(pool_of(*added), request.size, request.alignment);
  if (live_ > peak_live_) peak_live_ = live_;
  return taken;
}

// The last of acquiring that can fail: records for what the region will be cut into.
bool Heap::prepare(Region* region) {
  Locked hold(pool_);
  if (!pool_of(*region).prepare()) return false;
  if (!region->exposed) return true;
  const size_t bytes = region->length / os::kPageSize * sizeof *region->live_pages;
  region->live_pages = static_cast<uint32_t*>(os::map_metadata(bytes));
  if (region->live_pages == nullptr) return false;
  live_pages_bytes_ += bytes;
  return true;
}

Region* Heap::publish(const Region& region) {
  Region* added = regions_.add(region);
  budget_.charge(region.kind, region.length);
  if (region.exposed) exposed_held_ += region.length;
  for (size_t i = 0; i < observer_count_; ++i) observers_[i]->on_acquire(*added);
  return added;
}

// Once, because there is trouble but once.
void Heap::warn_of_ledger() {
  if (warned_of_ledger_ || budget_.ledger().trouble()[0] == '\0') return;
  warned_of_ledger_ = true;
  if (options_.on(OptionId::warn)) Message().add(budget_.ledger().trouble()).send();
}

void Heap::warn_of_overflow() {
  if (warned_ || !options_.on(OptionId::warn)) return;
  // A cap of nothing is a decision, not an accident.
  if (budget_.pin_limit() == 0 && budget_.limited_by() == LimitedBy::kCap) return;
  warned_ = true;
  Message message;
  message.add("rdmalloc: from here on memory is not pinned: ");
  switch (budget_.limited_by()) {
    case LimitedBy::kMemlock: {
      const os::LockLimit limit = os::lock_limit();
      message.add("RLIMIT_MEMLOCK is ").add_size(limit.soft).add(" (hard ").add_size(limit.hard);
      message.add("), ").add_size(budget_.pinned()).add(" is pinned; raise it with ulimit -l");
      message.add(" or in limits.conf, or give CAP_IPC_LOCK");
      break;
    }
    case LimitedBy::kAvailable:
      message.add_size(budget_.pinned()).add(" is pinned and too little memory is available");
      break;
    case LimitedBy::kCap:
      message.add("RDMALLOC_CAP allows ").add_size(budget_.pin_limit());
      break;
    case LimitedBy::kNode:
      message.add("RDMALLOC_NODE_CAP allows ").add_size(budget_.ledger().cap());
      message.add(" on this node, this process ").add_size(budget_.pin_limit());
      message.add(" of it; it has ").add_size(budget_.pinned());
      budget_.ledger().say_who_holds(&message);
      break;
  }
  message.add(" (RDMALLOC_WARN=off silences this)").send();
}

}  // namespace rdmalloc
