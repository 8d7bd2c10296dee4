#include "allocator/heap.h"

#include <string.h>

#include "allocator/message.h"
#include "allocator/os/limits.h"

namespace rdmalloc {

constinit Heap heap;

void Heap::boot() {
  if (booted()) return;
  options_.load();
  if (options_.on(OptionId::warn) && options_.warning()[0] != '\0') {
    Message().add(options_.warning()).add("; see rdmalloc run --help").send();
  }
  budget_.boot(options_);
  sparse_from_ = budget_.resolve(options_.amount(OptionId::sparse_from));
  counters_from_ = budget_.resolve(options_.amount(OptionId::counters_from));
  const size_t wanted = budget_.resolve(options_.amount(OptionId::window));
  const Status reserved = window_.reserve(wanted < Window::kSmallest ? Window::kSmallest : wanted);
  if (ok(reserved) && !ok(regions_.boot())) window_.abandon();
  if (window_.size() == 0 && options_.on(OptionId::warn)) {
    Message message;
    message.add("rdmalloc: no address space for a window (RLIMIT_AS leaves ");
    message.add_size(os::address_space_left()).add("): memory is neither in it nor pinned").send();
  }
  several_nodes_ = options_.choice(OptionId::numa) == kNumaLocal && os::has_several_nodes();
  maker_.boot(several_nodes_);
  booted_.store(true, std::memory_order_release);
}

int Heap::node_here() const { return several_nodes_ ? os::current_node() : 0; }

ExtentPool& Heap::pool_of(const Region& region) {
  if (region.exposed) return exposed_[region.node];
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
  counters_.note_live(live_);
  Region* region = regions_.find(address);
  if (region->exposed) {
    live_exposed_ += size;
    *live_exposed(address) = static_cast<uint32_t>(size / os::kPageSize);
  }
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
// of any other's and of overflow. Exposed extents lie in pinned regions of their own.
Heap::Taken Heap::take(const Request& request, Where where) {
  ExtentPool* pinned = request.exposed ? exposed_ : pinned_;
  const auto take_of = [&](ExtentPool& pool) {
    return take_from(pool, request.size, request.alignment);
  };
  Locked hold(pool_);
  if (const Taken taken = take_of(pinned[request.node])) return taken;
  if (where == Where::kBest) return {};
  for (int other = 0; several_nodes_ && other < os::kMaxNodes; ++other) {
    if (const Taken taken = take_of(pinned[other])) return taken;
  }
  return request.exposed ? Taken{} : take_of(overflow_);
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
  return take_or_grow({size, alignment, node_here()});
}

Heap::Taken Heap::take_or_grow(const Request& request) {
  if (const Taken taken = take(request, Where::kBest)) return taken;
  Locked hold(growth_);
  // Somebody else may have grown the heap while this thread waited.
  if (const Taken taken = take(request, Where::kBest)) return taken;
  return grow(request);
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
  return acquire(grant, {size, alignment, node_here()});
}

bool Heap::release(void* address, size_t size) {
  const Region* region = regions_.find(address);
  if (region == nullptr || region->exposed) return false;
  if (region->end() - reinterpret_cast<uintptr_t>(address) < size) return false;
  // Locked pages are not discarded (mlockall); what is free in a sparse region must read as zero.
  if (region->kind == RegionKind::kSparse) {
    for (size_t i = 0; i < observer_count_; ++i) observers_[i]->on_discard(address, size);
    if (!ok(os::discard(address, size))) memset(address, 0, size);
  }
  Locked hold(pool_);
  if (!ok(pool_of(*region).give(address, size))) return false;
  note_given_back(size);
  return true;
}

// Under the pool lock.
void Heap::note_given_back(size_t size) {
  live_ -= size;
  counters_.note_live(live_);
}

Status Heap::attach(RegionObserver* observer) {
  Locked hold(growth_);
  for (size_t i = 0; i < observer_count_; ++i) {
    if (observers_[i] == observer) return Status::kOk;
  }
  if (observer_count_ == kMaxObservers) return Status::kNoMemory;
  for (size_t i = 0; i < regions_.size(); ++i) observer->on_acquire(regions_[i]);
  observers_[observer_count_] = observer;
  ++observer_count_;
  return Status::kOk;
}

RegistrationCounters Heap::registrations() {
  Locked hold(growth_);
  RegistrationCounters sum;
  for (size_t i = 0; i < observer_count_; ++i) observers_[i]->add_to(&sum);
  return sum;
}

// Under the pool lock. Lets other processes read the counters, unless it is not wanted. Not from
// the start: most processes are small, and some look at which descriptors they have.
void Heap::share_counters() {
  if (counters_from_ != 0) counters_.share();
}

void Heap::begin_phase(const char* name) {
  Locked hold(pool_);
  share_counters();
  counters_.begin_phase(name);
}

const CounterPage& Heap::counter_page() {
  Locked hold(pool_);
  return counters_.page();
}

void Heap::note_registrations(uint64_t domains, uint64_t registered, uint64_t registered_pinned) {
  Locked hold(pool_);
  if (domains != 0) share_counters();
  counters_.note_registrations(domains, registered, registered_pinned);
}

HeapCounters Heap::counters(size_t kept) {
  HeapCounters now;
  Locked hold(pool_);
  now.live = live_ > kept ? live_ - kept : 0;
  if (now.live > peak_live_) peak_live_ = now.live;
  now.peak_live = peak_live_;
  now.peak_held = peak_held_;
  now.acquire_ns = acquire_ns_;
  now.live_exposed = live_exposed_;
  now.metadata = regions_.metadata_bytes() + live_pages_bytes_;
  const auto add = [&now](const ExtentPool& pool) {
    now.free_extents += pool.extents();
    now.metadata += pool.metadata_bytes();
    if (pool.largest() > now.largest_free) now.largest_free = pool.largest();
  };
  for (const ExtentPool& pool : pinned_) add(pool);
  for (const ExtentPool& pool : exposed_) add(pool);
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
  retire_inherited();
  counters_.note_fork_child();
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
  for (const ExtentPool& pool : exposed_) check(pool);
  check(overflow_);
  check(sparse_);
  return good && are_live_exposed_valid() && held == budget_.held() &&
         held == free + live_ + retired_;
}

}  // namespace rdmalloc
