#include "allocator/pages/growth.h"

#include <algorithm>

#include "allocator/os/clock.h"
#include "allocator/pages/populate.h"

namespace rdmalloc {
namespace {

// Every process uses these pages of the first region, so one call faults them in.
constexpr size_t kPopulatedFirst = size_t{32} << 10;

// After a refusal to pin more, how long free unpinned memory is used before asking again: the first
// pause, and the longest after repeated refusals.
constexpr uint64_t kPauseNs = 1'000'000;
constexpr uint64_t kLongestPauseNs = 128'000'000;

// A block that grows by moving gets a quarter of its size in spare new pages, so that it need not
// move at each step.
constexpr size_t kSpareOfBlock = 4;

void* pointer(uintptr_t address) { return reinterpret_cast<void*>(address); }

RegionUse other_than(RegionUse use) {
  return use == RegionUse::kExtents ? RegionUse::kBlocks : RegionUse::kExtents;
}

}  // namespace

void Growth::boot() {
  huge_.boot(store_.options.choice(OptionId::huge));
  const uint64_t choice = store_.options.choice(OptionId::gather);
  const bool is_off = choice == kGatherOff || store_.options.on(OptionId::seal);
  const bool is_forced = choice == kGatherAlways;
  gathering_.boot(is_off, is_forced);
  policy_.boot(is_forced);
}

// Whole huge pages, of either kind: with a tail of base pages the kernel registers the whole region
// page by page, which takes ten times as long.
Growth::Plan Growth::plan(const Request& request, RegionKind of) {
  size_t bytes = policy_.amount(request);
  Region region;
  region.kind = of;
  region.use = request.use;
  region.by_touch = store_.placement.is_by_touch(request.use);
  const os::PageKind kind = huge_.kind_for(bytes, store_.budget.held(), is_to_come_at_once(region),
                                           store_.regions, store_.marks);
  if (kind == os::PageKind::kBase) return {bytes, kind};
  bytes = os::align_down(bytes, os::page_size_of(kind));
  if (bytes < request.size) bytes = os::align_up(request.size, os::page_size_of(kind));
  return {bytes, kind};
}

Taken Growth::grow(const Request& request) {
  Acquired acquired;
  {
    Locked hold(mutex());
    // Another thread may have grown the heap while this one waited.
    const auto where =
        policy_.is_ample(request.size) ? Depots::Where::kAnyNode : Depots::Where::kBest;
    if (const Taken taken = store_.depots.take(request, where)) return taken;
    acquired = grow_locked(request);
    policy_.note_live();
  }
  make_ready(acquired, request.size);
  return acquired.taken;
}

Growth::Acquired Growth::grow_locked(const Request& request) {
  const bool may_overflow = request.use != RegionUse::kExposed && !request.pinned;
  const auto take_anywhere = [&] {
    return Acquired{nullptr, store_.depots.take(request, Depots::Where::kAnywhere)};
  };
  Plan wanted = plan(request, RegionKind::kPinned);
  // What was moved before the kernel refused to move more may already be enough.
  if (const Acquired made = gather(request, wanted, true, Worth::kTouched); made.taken) return made;
  Grant grant = store_.budget.ask_pinned(request.size, wanted.bytes);
  warnings_.warn_of_ledger();
  if (grant.bytes != 0) {
    pause_ns_ = 0;
    store_.depots.put_off_pinning(0);
  } else {
    note_refusal();
    if (const Acquired made = gather(request, wanted, true, Worth::kAll); made.taken) return made;
    // Tried before asking how much memory there is, which reads the same kernel files.
    if (const Acquired taken = take_anywhere(); taken.taken) return taken;
    if (!may_overflow) return make_last(request);
    wanted = plan(request, RegionKind::kOverflow);
    if (const Acquired made = gather(request, wanted, false, Worth::kAll); made.taken) return made;
    grant = store_.budget.ask_overflow(request.size, wanted.bytes);
  }
  if (grant.bytes == 0) return make_last(request);
  const Acquired acquired = acquire(grant, request, wanted.kind);
  store_.budget.record_pinned();
  return acquired.taken ? acquired : take_anywhere();
}

// Pinning was just refused; asking again for every extent would re-read kernel files each time.
void Growth::note_refusal() {
  pause_ns_ = pause_ns_ == 0 ? kPauseNs : std::min(2 * pause_ns_, kLongestPauseNs);
  store_.depots.put_off_pinning(os::now_ns() + pause_ns_);
}

Taken Growth::grow_sparse(size_t size, size_t alignment, int node) {
  const Request request{size, alignment, RegionUse::kBlocks, node};
  Acquired acquired;
  {
    Locked hold(mutex());
    const Grant grant = store_.budget.ask_unpinned(RegionKind::kSparse, size, size);
    if (grant.bytes == 0) return {};
    acquired = acquire(grant, request, huge_.chosen());
  }
  make_ready(acquired, 0);
  return acquired.taken;
}

void Growth::release_sparse(uintptr_t base) {
  Locked hold(mutex());
  Region* const region = store_.regions.find(pointer(base));
  if (region == nullptr || region->sealed) return;
  const size_t length = region->length;
  // Only if all of it is free.
  if (!store_.depots.take_at(pointer(region->base), length)) return;
  store_.depots.note_gone(region->use, length);
  store_.budget.release(RegionKind::kSparse, length);
  policy_.note_lost(region->use, length);
  os::close(pointer(region->base), length);
  mover_.note_closed();
  region->set_retired(length);
  store_.regions.remove(*region);
  forget_blocks(*region);
  note_emptied(region);
  const bool is_kept = store_.observers.any_of(
      [&](const RegionObserver& observer) { return !observer.has_let_go(*region); });
  if (!is_kept) maker_.reuse_addresses(*region);
  store_.books.note_growth(count_regions());
}

bool Growth::reserve(size_t bytes, int node) {
  Request request{os::page_ceil(bytes), os::page_size(), RegionUse::kExtents, node};
  request.pinned = true;
  Acquired acquired;
  {
    Locked hold(mutex());
    const Grant grant = store_.budget.ask_pinned(request.size, request.size);
    warnings_.warn_of_ledger();
    if (grant.bytes >= request.size)
      acquired = acquire(grant, request, plan(request, RegionKind::kPinned).kind);
    store_.budget.record_pinned();
  }
  if (!acquired.taken) return false;
  (void)populate(*acquired.region, PagesFor::kNow);
  make_ready(acquired, request.size);
  return ok(store_.depots.give(*acquired.region, acquired.region->node, acquired.taken.address,
                               request.size));
}

// Takes pieces for the request out of one node's depots. Depots of the request's own use come
// first, and give whole runs, so that no scraps stay behind; those of other uses give no more than
// is missing. Exposed regions serve exposed requests only, and those take from nothing else.
size_t Growth::collect_of(const Request& request, int node, size_t missing, bool pinned) {
  size_t got = gathering_.collect(store_.depots.of(request.use, node, pinned), missing, SIZE_MAX);
  if (request.use != RegionUse::kExposed && got < missing) {
    Depot& other = store_.depots.of(other_than(request.use), node, pinned);
    got += gathering_.collect(other, missing - got, missing - got);
  }
  return got;
}

// Takes from other nodes only if more than enough is held; otherwise their memory stays where it
// is.
bool Growth::collect(const Request& request, size_t target, bool pinned) {
  const size_t before = gathering_.collected();
  const size_t missing = target > before ? target - before : 0;
  const auto free_of = [&](int node) {
    const size_t own = store_.depots.of(request.use, node, pinned).free_bytes();
    return request.use == RegionUse::kExposed
               ? own
               : own + store_.depots.of(other_than(request.use), node, pinned).free_bytes();
  };
  const bool is_anywhere = pinned && policy_.is_ample(request.size);
  const int nodes = is_anywhere ? store_.depots.nodes() : 1;
  size_t free = 0;
  for (int i = 0; i < nodes; ++i) free += free_of(nth_node(request, i));
  if (!policy_.is_worth_gathering(missing, free)) return false;
  size_t got = 0;
  for (int i = 0; i < nodes && got < missing; ++i) {
    got += collect_of(request, nth_node(request, i), missing - got, pinned);
  }
  return policy_.is_enough(got);
}

// Makes a region of free pages, and of new pages for what is missing.
Growth::Acquired Growth::gather(const Request& request, const Plan& plan, bool pinned,
                                Worth worth) {
  const size_t target = policy_.amount_to_gather(request, plan.bytes);
  if (!policy_.may_gather(request, target, count_regions())) return {};
  const uint64_t started = os::thread_cpu_ns();
  Acquired acquired;
  const bool is_any = worth == Worth::kAll || policy_.may_move_untouched();
  if (collect(request, target, pinned) && (is_any || gathering_.is_touched())) {
    acquired = assemble(request, plan, nullptr);
  } else {
    gathering_.put_back();
  }
  policy_.note_gathering(os::thread_cpu_ns() - started);
  return acquired;
}

// The free memory that may serve the request: of any use, except that exposed regions serve exposed
// requests only, and those nothing else.
size_t Growth::free_for(const Request& request, bool pinned) const {
  size_t free = 0;
  for (int node = 0; node < store_.depots.nodes(); ++node) {
    free += store_.depots.of(request.use, node, pinned).free_bytes();
    if (request.use == RegionUse::kExposed) continue;
    free += store_.depots.of(other_than(request.use), node, pinned).free_bytes();
  }
  return free;
}

// Takes pieces however small. False: there is not enough, and nothing is collected.
bool Growth::collect_last(const Request& request, bool pinned, Gathering::Way way) {
  if (free_for(request, pinned) < request.size) return false;
  for (const RegionUse use : {request.use, other_than(request.use)}) {
    if (request.use == RegionUse::kExposed && use != request.use) continue;
    for (int i = 0; i < store_.depots.nodes(); ++i) {
      const size_t got = gathering_.collected();
      if (got >= request.size) return true;
      Depot& depot = store_.depots.of(use, nth_node(request, i), pinned);
      (void)gathering_.collect_all(depot, request.size - got, way);
    }
  }
  if (gathering_.collected() >= request.size) return true;
  gathering_.put_back();
  return false;
}

// No more memory may be held: assembles the request from all free pieces, however small and
// whatever their use.
Growth::Acquired Growth::make_last(const Request& request) {
  if (request.alignment > Window::kGranule) return {};
  const bool may_overflow = request.use != RegionUse::kExposed && !request.pinned;
  const auto first = gathering_.best_way();
  const auto second =
      first == Gathering::Way::kMove ? Gathering::Way::kRenew : Gathering::Way::kMove;
  for (const auto way : {first, second}) {
    for (const bool pinned : {true, false}) {
      if ((!pinned && !may_overflow) || !collect_last(request, pinned, way)) continue;
      const Plan exact{request.size, os::PageKind::kBase};
      const Acquired made =
          way == Gathering::Way::kMove ? assemble(request, exact, nullptr) : renew(request);
      if (made.taken) return made;
    }
  }
  return {};
}

// Moving would need more mappings than are allowed: gives the collected pages back to the kernel
// and gets new ones.
Growth::Acquired Growth::renew(const Request& request) {
  if (!has_slot()) {
    gathering_.put_back();
    return {};
  }
  const bool is_pinned = gathering_.model().locked;
  const size_t given =
      gathering_.give_up([this](Region* region, size_t size) REQUIRES(growth_lock) {
        store_.budget.release(region->charged_as(), size);
        note_lost(region, size);
      });
  if (given < request.size) return {};
  const Grant grant = is_pinned ? store_.budget.ask_pinned(request.size, request.size)
                                : store_.budget.ask_overflow(request.size, request.size);
  const Acquired acquired =
      grant.bytes == 0 ? Acquired{} : acquire(grant, request, os::PageKind::kBase);
  store_.budget.record_pinned();
  return acquired;
}

// Moves the collected pages, and adds new pages for the rest, at fresh addresses. If nothing is
// taken, either nothing happened or the pages that did move are a region of free pages.
Growth::Acquired Growth::assemble(const Request& request, const Plan& plan,
                                  const Assembly::Block* block) {
  if (!has_slot()) {
    gathering_.put_back();
    return {};
  }
  const uint64_t started = os::now_ns();
  const auto left = [this](Region* region, size_t size)
                        REQUIRES(growth_lock) { note_lost(region, size); };
  const Assembly::Result made =
      assembly_.build(request, plan.bytes - request.size, plan.kind, block, left);
  Acquired acquired;
  if (made.region.length != 0) {
    if (block == nullptr) policy_.note_gathered(request, made.region.length - made.fresh);
    acquired = publish(made.region, made.charged, request);
    mover_.note_region(made.region, made.fresh);
    acquire_ns_ += os::now_ns() - started;
  } else {
    warnings_.warn_of_window(request.size);
  }
  store_.budget.record_pinned();
  return acquired;
}

void* Growth::move_block(uintptr_t address, size_t old_size, const Request& request) {
  const Assembly::Block block{address, old_size};
  Acquired acquired;
  {
    Locked hold(mutex());
    if (!policy_.may_move_block(count_regions()) || !gathering_.may_move(address, old_size)) {
      return nullptr;
    }
    const Region& region = *store_.regions.find(pointer(address));
    gathering_.collect_block(address, old_size);
    (void)collect(request, request.size, region.kind == RegionKind::kPinned);
    const size_t spare = os::page_ceil(request.size / kSpareOfBlock);
    const os::PageKind kind =
        huge_.watch().has_gone_back() ? os::PageKind::kBase : region.page_kind;
    acquired = assemble(request, {request.size + spare, kind}, &block);
    if (acquired.taken) store_.depots.note_gone(request.use, old_size);
  }
  make_ready(acquired, 0);
  return acquired.taken.address;
}

// Zero length: no region was made, and nothing happened.
Region Growth::make(Grant grant, const Request& request, os::PageKind kind) {
  if (!has_slot()) return {};
  const bool is_exposed = request.use == RegionUse::kExposed;
  const bool may_overflow = !store_.options.on(OptionId::strict) && !is_exposed && !request.pinned;
  const size_t page = os::page_size_of(kind);
  if (kind == os::PageKind::kHugetlb && os::align_down(grant.bytes, page) >= request.size) {
    grant.bytes = os::align_down(grant.bytes, page);
  }
  RegionOrder order;
  order.kind = grant.kind;
  order.use = request.use;
  order.length = grant.bytes;
  const bool is_wide = page > Window::kGranule && grant.bytes >= page;
  order.alignment = is_wide ? std::max(request.alignment, page) : request.alignment;
  order.node = request.node;
  order.page_kind = kind;
  order.may_overflow = may_overflow && grant.bytes == request.size;
  const Region region = maker_.make(order);
  if (region.length != 0 || (grant.bytes == request.size && !is_wide)) return region;
  // The window, the kernel or a limit may have refused only the surplus, or the alignment.
  order.length = request.size;
  order.alignment = request.alignment;
  if (is_wide) order.page_kind = os::PageKind::kBase;
  order.may_overflow = may_overflow;
  return maker_.make(order);
}

// Makes a region of new pages. Nothing taken: nothing happened.
Growth::Acquired Growth::acquire(Grant grant, const Request& request, os::PageKind kind) {
  const uint64_t started = os::now_ns();
  Region region = make(grant, request, kind);
  if (region.length == 0) {
    warnings_.warn_of_window(request.size);
    return {};
  }
  if (!store_.blocks.cover(region) || !store_.depots.prepare(region)) {
    maker_.undo(region);
    return {};
  }
  maker_.finish(&region);
  const Acquired acquired = publish(region, region.length, request);
  mover_.note_region(region, region.length);
  acquire_ns_ += os::now_ns() - started;
  if (region.kind == RegionKind::kOverflow) warnings_.warn_of_overflow();
  return acquired;
}

bool Growth::has_slot() const {
  return store_.regions.has_room() || slots_.peek() != RegionTable::kNoSlot;
}

size_t Growth::count_regions() const { return store_.regions.size() - slots_.count(); }

void Growth::note_lost(Region* region, size_t size) {
  policy_.note_lost(region->use, size);
  if (!region->is_empty()) return;
  // Blocks that the program destroyed still wait for free().
  if (!store_.marks.is_changed(region->base, region->length)) forget_blocks(*region);
  note_emptied(region);
}

void Growth::note_emptied(Region* region) {
  store_.observers.for_each([&](RegionObserver& observer)
                                REQUIRES(growth_lock) { observer.on_retire(*region); });
  slots_.add(*region);
}

void Growth::forget_blocks(const Region& region) {
  if (region.use != RegionUse::kExtents) store_.blocks.forget(region.base, region.length);
}

void Growth::note_taken(const Region& region, size_t size) { policy_.note_lost(region.use, size); }

void Growth::note_regained(const Region& region, size_t size) {
  policy_.note_got(region.use, size);
}

// Its blocks still belong to the program, which will free them.
void Growth::note_destroyed(Region* region) {
  store_.regions.remove(*region);
  note_emptied(region);
  store_.books.note_growth(count_regions());
  store_.caches.set_held(policy_.held(RegionUse::kBlocks));
}

// Publishes a region and takes the request's part of it first: taking needs no growth lock, so
// other threads could use the region up at once.
Growth::Acquired Growth::publish(const Region& region, size_t charged, const Request& request) {
  Region* const added = store_.regions.add(region, slots_.take());
  store_.budget.charge(region.charged_as(), charged);
  policy_.note_got(region.use, region.length);
  store_.observers.for_each([&](RegionObserver& observer)
                                REQUIRES(growth_lock) { observer.on_acquire(*added); });
  Acquired acquired{added, {}};
  const size_t taken = region.length < request.size ? 0 : request.size;
  if (taken != 0) acquired.taken = Depot::hand_out(added, pointer(region.base), taken);
  store_.depots.add(added, taken);
  store_.books.note_growth(count_regions());
  store_.caches.set_held(policy_.held(RegionUse::kBlocks));
  return acquired;
}

// Whether someone wants all of the region's pages as soon as it is ready.
bool Growth::is_to_come_at_once(const Region& region) const {
  const uint64_t choice = store_.options.choice(OptionId::populate);
  if (region.kind != RegionKind::kPinned) return false;
  if (choice != kPopulateAuto) return choice == kPopulateNow;
  return store_.observers.any_of(
      [&](const RegionObserver& observer) { return observer.wants_pages(region); });
}

bool Growth::populate(const Region& region, PagesFor who) {
  return populate_in_steps(region, who, store_.marks, store_.budget, huge_.watch());
}

bool Growth::populate_part(const Region& region, uintptr_t from, uintptr_t to) {
  return populate_at_once(region, from, to, store_.marks, store_.budget, huge_.watch());
}

// `wanted`: how many bytes of the region the program is about to touch.
void Growth::make_ready(const Acquired& acquired, size_t wanted) {
  if (acquired.region == nullptr) return;
  const Region& region = *acquired.region;
  if (is_to_come_at_once(region)) {
    (void)populate(region, PagesFor::kLater);
  } else if (region.use == RegionUse::kExtents && store_.regions.size() == 1) {
    populate_beginning(region, std::min(region.length, kPopulatedFirst), huge_.watch());
  } else if (!region.gathered) {
    try_huge_pages(region, wanted, store_.marks, huge_.watch());
  }
  store_.observers.for_each([&](RegionObserver& observer) { observer.on_ready(region); });
}

}  // namespace rdmalloc
