#include "allocator/heap.h"

#include <string.h>

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

constexpr size_t page_ceil(size_t bytes) {
  return (bytes + os::kPageSize - 1) & ~(os::kPageSize - 1);
}

constexpr size_t huge_floor(size_t bytes) { return bytes & ~(os::kHugePageSize - 1); }

}  // namespace

constinit Heap heap;

void Heap::boot() {
  if (booted()) return;
  options_.load();
  if (options_.on(OptionId::warn) && options_.warning()[0] != '\0') {
    Message().add(options_.warning()).add("; see rdmalloc run --help").send();
  }
  budget_.boot(options_);
  sparse_from_ = budget_.resolve(options_.amount(OptionId::sparse_from));
  const size_t wanted = budget_.resolve(options_.amount(OptionId::window));
  const Status reserved = window_.reserve(wanted < Window::kSmallest ? Window::kSmallest : wanted);
  if (ok(reserved) && !ok(regions_.boot())) window_.abandon();
  if (window_.size() == 0 && options_.on(OptionId::warn)) {
    Message message;
    message.add("rdmalloc: no address space for a window (RLIMIT_AS leaves ");
    message.add_size(os::address_space_left()).add("): memory is neither in it nor pinned").send();
  }
  several_nodes_ = options_.choice(OptionId::numa) == kNumaLocal && os::has_several_nodes();
  booted_.store(true, std::memory_order_release);
}

int Heap::node_here() const { return several_nodes_ ? os::current_node() : 0; }

size_t Heap::next_step() const {
  const size_t held = budget_.held();
  size_t step = held / kEarlyShare;
  if (step > kLargestEarlyStep) step = kLargestEarlyStep;
  if (step < held / kShare) step = held / kShare;
  if (step < kFirstStep) step = kFirstStep;
  // In a window that RLIMIT_AS made small, regions below a granule would use it up.
  if (window_.granules() < kFewGranules && step < Window::kGranule) {
    step = Window::kGranule - os::kPageSize;
  }
  if (step > kLargestStep) step = kLargestStep;
  return page_ceil(step);
}

ExtentPool& Heap::pool_of(const Region& region) {
  switch (region.kind) {
    case RegionKind::kPinned:
      return pinned_[region.node];
    case RegionKind::kSparse:
      return sparse_;
    case RegionKind::kOverflow:
      break;
  }
  return overflow_;
}

// Under the pool lock.
Heap::Taken Heap::hand_out(void* address, size_t size) {
  if (address == nullptr) return {};
  live_ += size;
  Region* region = regions_.find(address);
  if (region->kind == RegionKind::kSparse) return {address, 0};  // purged when it was freed
  const auto start = reinterpret_cast<uintptr_t>(address);
  const size_t used = region->fresh_from > start ? region->fresh_from - start : 0;
  if (used < size) region->fresh_from = start + size;
  return {address, used < size ? used : size};
}

Heap::Taken Heap::take_from(ExtentPool& pool, size_t size, size_t alignment) {
  return hand_out(pool.take(size, alignment), size);
}

// From the free extents: of this node's pinned regions, or, when nothing more can be pinned there,
// of any other's and of overflow.
Heap::Taken Heap::take(size_t size, size_t alignment, int node, bool any_kind) {
  Locked hold(pool_);
  if (const Taken taken = take_from(pinned_[node], size, alignment)) return taken;
  if (!any_kind) return {};
  for (int other = 0; several_nodes_ && other < os::kMaxNodes; ++other) {
    if (const Taken taken = take_from(pinned_[other], size, alignment)) return taken;
  }
  return take_from(overflow_, size, alignment);
}

Heap::Taken Heap::take_at(void* address, size_t size) {
  const Region* region = regions_.find(address);
  if (region == nullptr) return {};
  Locked hold(pool_);
  return hand_out(pool_of(*region).take_at(address, size) ? address : nullptr, size);
}

void* Heap::allocate(void* new_addr, size_t size, size_t alignment, bool* zero) {
  const Taken taken = find_extent(new_addr, size, alignment, *zero);
  if (!taken) return nullptr;
  // jemalloc wants *zero obeyed here; it zeroes what it reuses itself, not what we hand out.
  if (*zero) memset(taken.address, 0, taken.dirty);
  *zero = *zero || taken.dirty == 0;
  return taken.address;
}

bool Heap::is_sparse(size_t size, bool zero) const {
  return zero && sparse_from_ != 0 && size >= sparse_from_;
}

bool Heap::must_grow(size_t size, size_t alignment, bool zero) {
  if (is_sparse(size, zero)) return false;
  const int node = node_here();
  Locked hold(pool_);
  return !pinned_[node].has(size, alignment) && !overflow_.has(size, alignment);
}

Heap::Taken Heap::find_extent(void* new_addr, size_t size, size_t alignment, bool must_zero) {
  if (new_addr != nullptr) return take_at(new_addr, size);
  if (is_sparse(size, must_zero)) return take_sparse(size, alignment);
  const int node = node_here();
  if (const Taken taken = take(size, alignment, node, false)) return taken;
  Locked hold(growth_);
  // Somebody else may have grown the heap while this thread waited.
  if (const Taken taken = take(size, alignment, node, false)) return taken;
  return grow(size, alignment, node);
}

// Under the growth lock.
Heap::Taken Heap::grow(size_t size, size_t alignment, int node) {
  const size_t step = next_step();
  const bool hugetlb = options_.choice(OptionId::huge) == kHugeHugetlb;
  // With a step to spare: a region of exactly what is needed leaves no room for what is needed
  // next, and an object that grows by realloc would leave one behind at every size.
  size_t want = size < kFirstStep ? step : size + step;
  if (want > kLargestStep) want = size > kLargestStep ? size : kLargestStep;
  if (hugetlb && want >= os::kHugePageSize) want = huge_floor(want + os::kHugePageSize - 1);
  Grant grant = budget_.ask(size, want);
  if (hugetlb && huge_floor(grant.bytes) >= size) grant.bytes = huge_floor(grant.bytes);
  if (grant.bytes == 0 || grant.kind != RegionKind::kPinned) {
    if (const Taken taken = take(size, alignment, node, true)) return taken;
  }
  if (grant.bytes == 0) return {};
  if (const Taken taken = acquire(grant, size, node, alignment)) return taken;
  return take(size, alignment, node, true);
}

Heap::Taken Heap::take_sparse(size_t size, size_t alignment) {
  const auto take_free = [&]() {
    Locked hold(pool_);
    return take_from(sparse_, size, alignment);
  };
  if (const Taken taken = take_free()) return taken;
  Locked hold(growth_);
  const Grant grant = budget_.ask_unpinned(RegionKind::kSparse, size, size);
  if (grant.bytes == 0) return {};
  return acquire(grant, size, node_here(), alignment);
}

// Makes carved addresses usable and says where their pages shall lie. False: the kernel refused.
bool Heap::open(Region* region, os::PageKind kind) {
  void* address = reinterpret_cast<void*>(region->base);
  if (!ok(os::open(address, region->length, kind))) return false;
  region->page_kind = kind;
  if (several_nodes_) (void)os::prefer_node(address, region->length, region->node);
  return true;
}

// With huge pages where asked for and possible. Only what is populated at once may be hugetlb: a
// fault that finds the control group's share used up is a SIGBUS, and such pages are not discarded
// in part.
bool Heap::open_best(Region* region) {
  const uint64_t wanted = options_.choice(OptionId::huge);
  if (wanted == kHugeHugetlb && region->kind == RegionKind::kPinned &&
      region->length % os::kHugePageSize == 0 && open(region, os::PageKind::kHugetlb)) {
    return true;
  }
  const bool thp = wanted == kHugeThp && region->length >= os::kHugePageSize;
  return open(region, thp ? os::PageKind::kTransparentHuge : os::PageKind::kBase);
}

// Populates and locks. What cannot be locked becomes overflow where that may be; else the range is
// closed again, and the answer is false.
bool Heap::pin(Region* region, bool may_overflow) {
  void* address = reinterpret_cast<void*>(region->base);
  Status done = os::populate(address, region->length);
  if (!ok(done) && region->page_kind == os::PageKind::kHugetlb) {
    // The pool promised pages that a control group or another process then took.
    os::close(address, region->length);
    if (!open(region, os::PageKind::kBase)) return false;
    done = os::populate(address, region->length);
  }
  if (ok(done)) done = os::lock(address, region->length);
  region->locked = ok(done);
  if (region->locked) return true;
  if (!may_overflow) {
    os::close(address, region->length);
    return false;
  }
  if (done == Status::kOutOfBudget) budget_.note_refusal(region->length);
  os::unlock(address, region->length);  // a lock that failed half-way holds that half
  region->kind = RegionKind::kOverflow;
  return true;
}

// A region of exactly that length: carved, opened, placed and, if it shall be, pinned. Zero length:
// refused, and nothing happened.
Region Heap::make_region(RegionKind kind, size_t length, size_t alignment, int node,
                         bool may_overflow) {
  void* address = window_.carve(length, alignment);
  if (address == nullptr) return {};
  Region region;
  region.base = reinterpret_cast<uintptr_t>(address);
  region.length = length;
  region.fresh_from = region.base;
  region.kind = kind;
  region.node = static_cast<int16_t>(node);
  if (open_best(&region) && (kind != RegionKind::kPinned || pin(&region, may_overflow))) {
    return region;
  }
  window_.give_back(address);
  return {};
}

void Heap::note_huge_pages(Region* region) {
  if (region->page_kind == os::PageKind::kHugetlb) region->huge_bytes = region->length;
  if (region->page_kind != os::PageKind::kTransparentHuge) return;
  const auto* address = reinterpret_cast<const void*>(region->base);
  region->huge_bytes = os::transparent_huge_bytes(address, region->length);
  if (region->huge_bytes < region->length / 2) region->page_kind = os::PageKind::kBase;
}

// Under the growth lock. The region is known to all observers when this returns, and its first
// extent is taken: other threads, who need no growth lock to take, could use it up at once. Nothing
// taken: nothing happened.
Heap::Taken Heap::acquire(Grant grant, size_t need, int node, size_t alignment) {
  const uint64_t started = os::now_ns();
  if (!regions_.has_room()) return {};
  if (alignment < Window::kGranule) alignment = Window::kGranule;
  const bool strict = options_.on(OptionId::strict);
  Region region =
      make_region(grant.kind, grant.bytes, alignment, node, grant.bytes == need && !strict);
  if (region.length == 0 && grant.bytes > need) {
    // The window, the kernel or a limit may have refused only what was to spare.
    region = make_region(grant.kind, need, alignment, node, !strict);
  }
  if (region.length == 0) return {};
  void* address = reinterpret_cast<void*>(region.base);
  if (Locked hold(pool_); !pool_of(region).prepare()) {
    os::close(address, region.length);
    window_.give_back(address);
    return {};
  }
  note_huge_pages(&region);
  if (options_.on(OptionId::seal)) region.sealed = ok(os::seal(address, region.length));

  Region* added = regions_.add(region);
  budget_.charge(region.kind, region.length);
  for (size_t i = 0; i < observer_count_; ++i) observers_[i]->on_acquire(*added);
  acquire_ns_ += os::now_ns() - started;
  if (region.kind == RegionKind::kOverflow) warn_of_overflow();
  Locked hold(pool_);
  if (budget_.held() > peak_held_) peak_held_ = budget_.held();
  pool_of(*added).add(address, region.length);
  const Taken taken = take_from(pool_of(*added), need, alignment);
  if (live_ > peak_live_) peak_live_ = live_;
  return taken;
}

bool Heap::release(void* address, size_t size) {
  const Region* region = regions_.find(address);
  if (region == nullptr || region->end() - reinterpret_cast<uintptr_t>(address) < size)
    return false;
  // Locked pages are not discarded (mlockall); what is free in a sparse region must read as zero.
  if (region->kind == RegionKind::kSparse && !ok(os::discard(address, size))) {
    memset(address, 0, size);
  }
  Locked hold(pool_);
  if (!ok(pool_of(*region).give(address, size))) return false;
  live_ -= size;
  return true;
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
  }
  message.add(" (RDMALLOC_WARN=off silences this)").send();
}

Status Heap::attach(RegionObserver* observer) {
  Locked hold(growth_);
  for (size_t i = 0; i < observer_count_; ++i) {
    if (observers_[i] == observer) return Status::kOk;
  }
  if (observer_count_ == kMaxObservers) return Status::kNoMemory;
  for (size_t i = 0; i < regions_.size(); ++i) observer->on_acquire(regions_[i]);
  observers_[observer_count_++] = observer;
  return Status::kOk;
}

RegistrationCounters Heap::registrations() {
  Locked hold(growth_);
  RegistrationCounters sum;
  for (size_t i = 0; i < observer_count_; ++i) observers_[i]->add_to(&sum);
  return sum;
}

HeapCounters Heap::counters(size_t kept) {
  HeapCounters now;
  Locked hold(pool_);
  now.live = live_ > kept ? live_ - kept : 0;
  if (now.live > peak_live_) peak_live_ = now.live;
  now.peak_live = peak_live_;
  now.peak_held = peak_held_;
  now.acquire_ns = acquire_ns_;
  now.metadata = regions_.metadata_bytes();
  const auto add = [&now](const ExtentPool& pool) {
    now.free_extents += pool.extents();
    now.metadata += pool.metadata_bytes();
    if (pool.largest() > now.largest_free) now.largest_free = pool.largest();
  };
  for (const ExtentPool& pool : pinned_) add(pool);
  add(overflow_);
  add(sparse_);
  return now;
}

void Heap::before_fork() {
  growth_.lock();
  pool_.lock();
}

void Heap::after_fork_in_parent() {
  pool_.unlock();
  growth_.unlock();
}

void Heap::after_fork_in_child() {
  forked_ = true;
  for (size_t i = 0; i < regions_.size(); ++i) regions_[i].locked = false;
  budget_.note_fork_child();
  for (size_t i = 0; i < observer_count_; ++i) observers_[i]->on_fork_child();
  after_fork_in_parent();
}

bool Heap::validate() {
  Locked grow(growth_);
  Locked hold(pool_);
  size_t held = 0;
  for (size_t i = 0; i < regions_.size(); ++i) {
    const Region& region = regions_[i];
    held += region.length;
    if (regions_.find(reinterpret_cast<void*>(region.base)) != &region) return false;
    if (regions_.find(reinterpret_cast<void*>(region.end() - 1)) != &region) return false;
    if (regions_.find(reinterpret_cast<void*>(region.end())) == &region) return false;
  }
  size_t free = 0;
  bool good = true;
  const auto check = [&](const ExtentPool& pool) {
    good = good && pool.validate();
    free += pool.free_bytes();
    pool.for_each([&](void* address, size_t size) {
      const Region* region = regions_.find(address);
      good = good && region != nullptr && &pool_of(*region) == &pool &&
             reinterpret_cast<uintptr_t>(address) + size <= region->end();
    });
  };
  for (const ExtentPool& pool : pinned_) check(pool);
  check(overflow_);
  check(sparse_);
  return good && held == budget_.held() && held == free + live_;
}

}  // namespace rdmalloc
