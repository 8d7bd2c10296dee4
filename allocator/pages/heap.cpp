#include "allocator/pages/heap.h"

#include <string.h>

#include "allocator/breakage.h"
#include "allocator/message.h"
#include "allocator/os/limits.h"
#include "allocator/os/thread.h"

namespace rdmalloc {
namespace {

// The default window is many times what could ever be held, because addresses are used only once.
constexpr uint64_t kLeastWindow = uint64_t{1} << 40;
constexpr uint64_t kMostWindow = uint64_t{1} << 45;
constexpr uint64_t kWindowOfMemory = 64;

// Of the records that the tables' users take later: for the first of each.
constexpr size_t kRecords = size_t{1} << 20;

uint64_t default_window(uint64_t memory) {
  uint64_t window = kLeastWindow;
  while (window < kMostWindow && window / kWindowOfMemory < memory) window *= 2;
  return window;
}

}  // namespace

constinit Heap heap;

void Heap::boot() {
  if (booted()) return;
  options_.load();
  os::place_threads(options_.processors());
  if (options_.on(OptionId::warn) && options_.warning()[0] != '\0') {
    Message().add(options_.warning()).add("; see rdmalloc run --help").send();
  }
  budget_.boot(options_);
  size_t wanted = budget_.resolve(options_.amount(OptionId::window));
  if (wanted == 0) wanted = default_window(budget_.memory().total());
  const Status reserved = window_.reserve(wanted < Window::kSmallest ? Window::kSmallest : wanted);
  if (ok(reserved)) {
    os::map_tables_ahead(regions_.table_bytes() + marks_.table_bytes() +
                         CpuCaches::table_bytes(window_.size()) + kRecords);
  }
  if (ok(reserved) && (!ok(regions_.boot()) || !ok(marks_.boot()) || !ok(block_table_.boot()) ||
                       !ok(caches_.boot(window_.size())))) {
    window_.abandon();
  }
  if (window_.size() == 0 && options_.on(OptionId::warn)) {
    Message message;
    message.add("rdmalloc: no address space for a window (RLIMIT_AS leaves ");
    message.add_size(os::address_space_left()).add("): memory is neither in it nor pinned").send();
  }
  placement_.boot(options_.choice(OptionId::numa));
  depots_.boot(placement_.is_on());
  books_.boot(budget_.resolve(options_.amount(OptionId::counters_from)));
  books_.counters().note_window(window_.base(), window_.size());
  growth_.boot();
  blocks_.boot();
  booted_.store(true, std::memory_order_release);
}

Taken Heap::take(const Request& request) {
  if (const Taken taken = depots_.take(request, Depots::Where::kBest)) return taken;
  blocks_.drain(false);
  if (const Taken taken = growth_.grow(request)) return taken;
  // No more memory may be held: the processors' caches are the last resort.
  blocks_.drain(true);
  return growth_.grow(request);
}

void* Heap::allocate(void* new_addr, size_t size, size_t alignment, bool* zero) {
  const Taken taken = new_addr != nullptr
                          ? depots_.take_at(new_addr, size)
                          : take({size, alignment, RegionUse::kExtents, placement_.node_here()});
  if (!taken) return nullptr;
  books_.note_live();
  // jemalloc wants *zero obeyed here. It zeroes what it reuses itself, but not what we hand out.
  if (*zero) memset(new_addr != nullptr ? new_addr : taken.address, 0, taken.dirty);
  *zero = *zero || taken.dirty == 0;
  return taken.address;
}

bool Heap::must_grow(size_t size, size_t alignment) {
  return !depots_.has({size, alignment, RegionUse::kExtents, placement_.node_here()},
                      Depots::Where::kAnywhere);
}

bool Heap::release(void* address, size_t size) {
  const Region* region = regions_.find(address);
  // The region has no pages left: the program destroyed all of the extent that was in it.
  if (region == nullptr) return contains(address) && is_retired(address, size);
  if (region->use != RegionUse::kExtents) return false;
  if (region->end() - reinterpret_cast<uintptr_t>(address) < size) return false;
  if (holes_.has(address, size)) return release_around(*region, address, size);
  if (!ok(depots_.give(*region, region->node, address, size))) return false;
  books_.note_live();
  return true;
}

// Releases the parts of an extent between holes. There may be no memory to record all of them.
bool Heap::release_around(const Region& region, void* address, size_t size) {
  const auto base = reinterpret_cast<uintptr_t>(address);
  holes_.reopen(base, size);
  marks_.for_each_whole(base, base + size, [&](uintptr_t from, uintptr_t to) {
    void* const whole = reinterpret_cast<void*>(from);
    if (!ok(depots_.give(region, region.node, whole, to - from)))
      depots_.abandon(region, to - from);
  });
  books_.note_live();
  return true;
}

Status Heap::attach(RegionObserver* observer) {
  Locked hold(growth_.mutex());
  if (observers_.has(observer)) return Status::kOk;
  if (!observers_.has_room()) return Status::kNoMemory;
  for (size_t i = 0; i < regions_.size(); ++i) {
    if (RDM_BROKEN(first_region_is_not_replayed) && i == 0) continue;
    if (!regions_[i].is_empty()) observer->on_acquire(regions_[i]);
  }
  observers_.add(observer);
  budget_.shared().note_ahead();
  return Status::kOk;
}

RegistrationCounters Heap::registrations() {
  RegistrationCounters sum;
  observers_.for_each([&](RegionObserver& observer) { observer.add_to(&sum); });
  return sum;
}

void Heap::look_at_limits() {
  Locked hold(growth_.mutex());
  budget_.look();
  budget_.pin_limit().look();
  books_.counters().note_budget(budget_, count_regions());
}

size_t Heap::count_regions() const {
  size_t count = 0;
  for (size_t i = 0; i < regions_.size(); ++i) count += regions_[i].is_empty() ? 0 : 1;
  return count;
}

void Heap::begin_phase(const char* name) {
  look_at_limits();
  books_.share();
  books_.note_live();
  books_.counters().begin_phase(name);
}

void Heap::note_registrations(uint64_t domains, uint64_t registered, uint64_t registered_pinned) {
  if (domains != 0) books_.share();
  books_.counters().note_registrations(domains, registered, registered_pinned);
}

size_t Heap::live_blocks() const {
  const size_t taken = depots_.live(RegionUse::kBlocks) + depots_.live(RegionUse::kExposed);
  const size_t cached = caches_.bytes();
  return taken < cached ? 0 : taken - cached;
}

HeapCounters Heap::counters(size_t kept) {
  HeapCounters now;
  now.cached = caches_.bytes();
  const size_t live = depots_.live();
  now.live = live > kept + now.cached ? live - kept - now.cached : 0;
  now.live_exposed = depots_.live(RegionUse::kExposed);
  now.live_blocks = live_blocks();
  now.gathered = growth_.moved_bytes();
  now.retired = now.gathered + growth_.given_up_bytes() + holes_.lost_bytes();
  now.acquire_ns = growth_.acquire_ns();
  now.peak_held = books_.peak_held();
  now.peak_live = books_.raise_peak_live(now.live);
  now.metadata = regions_.metadata_bytes() + block_table_.metadata_bytes();
  now.regions = count_regions();
  depots_.for_each([&](Depot& depot) {
    depot.lock();
    now.free_extents += depot.free().runs();
    now.metadata += depot.free().metadata_bytes();
    if (depot.free().largest() > now.largest_free) now.largest_free = depot.free().largest();
    depot.unlock();
  });
  return now;
}

void Heap::before_fork() {
  growth_.mutex().lock();
  caches_.lock_all();
  depots_.lock_all();
  books_.counters().mutex().lock();
}

void Heap::after_fork_in_parent() {
  books_.counters().mutex().unlock();
  depots_.unlock_all();
  caches_.unlock_all();
  growth_.mutex().unlock();
}

void Heap::after_fork_in_child() {
  forked_ = true;
  os::note_fork_child();
  for (size_t i = 0; i < regions_.size(); ++i) regions_[i].locked = false;
  budget_.note_fork_child();
  books_.counters().note_fork_child();
  observers_.for_each([](RegionObserver& observer) REQUIRES(growth_lock) {
    if (!RDM_BROKEN(fork_handler_is_missed)) observer.on_fork_child();
  });
  holes_.forget_pending();
  after_fork_in_parent();
  depots_.abandon_exposed();
}

bool Heap::is_place_of(const Region& region, const Depot& depot) {
  if (&depots_.of(region) == &depot) return true;
  for (int node = 0; region.by_touch && node < depots_.nodes(); ++node) {
    if (&depots_.of(region, node) == &depot) return true;
  }
  return false;
}

bool Heap::validate() {
  Locked grow(growth_.mutex());
  depots_.lock_all();
  size_t held = 0;
  bool good = true;
  for (size_t i = 0; i < regions_.size(); ++i) {
    const Region& region = regions_[i];
    held += region.length - region.retired();
    if (region.is_empty()) continue;
    good = good && regions_.find(reinterpret_cast<void*>(region.base)) == &region &&
           regions_.find(reinterpret_cast<void*>(region.end() - 1)) == &region &&
           regions_.find(reinterpret_cast<void*>(region.end())) != &region;
  }
  size_t free = 0;
  depots_.for_each([&](Depot& depot) REQUIRES(depot_lock) {
    good = good && depot.free().validate();
    free += depot.free().free_bytes();
    depot.free().for_each([&](void* address, size_t size) {
      const Region* region = regions_.find(address);
      good = good && region != nullptr && is_place_of(*region, depot) &&
             reinterpret_cast<uintptr_t>(address) + size <= region->end() &&
             !is_retired(address, size);
    });
  });
  const size_t live = depots_.live();
  const size_t abandoned = depots_.abandoned();
  depots_.unlock_all();
  return good && held == budget_.charges().held() && held == free + live + abandoned;
}

}  // namespace rdmalloc
