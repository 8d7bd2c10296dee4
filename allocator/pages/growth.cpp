#include "allocator/pages/growth.h"

namespace rdmalloc {

void Growth::boot() {
  const uint64_t choice = store_.options.choice(OptionId::gather);
  const bool is_off = choice == kGatherOff || store_.options.on(OptionId::seal);
  const bool is_forced = choice == kGatherAlways;
  gathered_.boot(is_off, is_forced);
  gathering_policy_.boot(is_forced);
}

// Whole huge pages, of either kind: with a tail of base pages the kernel registers the whole region
// page by page, which takes ten times as long.
RegionPlan Growth::plan(const Request& request, RegionKind of) {
  size_t bytes = policy_.amount(request);
  Region region;
  region.kind = of;
  region.use = request.use;
  region.by_touch = store_.placement.is_by_touch(request.use);
  const os::PageKind kind = populator_.huge_pages().kind_for(bytes, store_.budget.charges().held(),
                                                             populator_.is_to_come_at_once(region),
                                                             store_.regions, store_.marks);
  if (kind == os::PageKind::kBase) return {bytes, kind};
  bytes = os::align_down(bytes, os::page_size_of(kind));
  if (bytes < request.size) bytes = os::align_up(request.size, os::page_size_of(kind));
  return {bytes, kind};
}

Taken Growth::grow(const Request& request) {
  Acquired acquired;
  {
    Locked hold(store_.mutex());
    // Another thread may have grown the heap while this one waited.
    const auto where =
        gathering_policy_.is_ample(request.size) ? Depots::Where::kAnyNode : Depots::Where::kBest;
    if (const Taken taken = store_.depots.take(request, where)) return taken;
    acquired = grow_locked(request);
    gathering_policy_.note_live();
  }
  populator_.make_ready(acquired, request.size);
  return acquired.taken;
}

Acquired Growth::grow_locked(const Request& request) {
  if (gathered_.spares().settle_all(true)) {
    if (const Taken taken = store_.depots.take(request, Depots::Where::kBest))
      return {nullptr, taken};
  }
  const RegionPlan wanted = plan(request, RegionKind::kPinned);
  // What was moved before the kernel refused to move more may already be enough.
  using Worth = GatheredRegions::Worth;
  const Acquired made = gathered_.gather(request, wanted, true, Worth::kTouched);
  if (made.taken) return made;
  const Grant grant = store_.budget.ask_pinned(request.size, wanted.bytes);
  warnings_.warn_of_ledger();
  if (grant.bytes == 0) return grow_unpinned(request, wanted);
  store_.pin_pause.note_grant();
  return acquire(grant, request, wanted.kind);
}

// No more memory may be pinned, of which `pinned` was wanted.
Acquired Growth::grow_unpinned(const Request& request, const RegionPlan& pinned) {
  using Worth = GatheredRegions::Worth;
  gathered_.spares().release(true);
  if (const Acquired made = gathered_.gather(request, pinned, true, Worth::kAll); made.taken)
    return made;
  store_.pin_pause.note_refusal();
  // Tried before asking how much memory there is, which reads the same kernel files.
  if (const Acquired taken = take_anywhere(request); taken.taken) return taken;
  if (request.use == RegionUse::kExposed || request.pinned) return gathered_.make_last(request);
  const RegionPlan wanted = plan(request, RegionKind::kOverflow);
  if (const Acquired made = gathered_.gather(request, wanted, false, Worth::kAll); made.taken)
    return made;
  if (gathered_.spares().settle_all(false)) {
    if (const Acquired taken = take_anywhere(request); taken.taken) return taken;
  }
  const Grant grant = store_.budget.ask_overflow(request.size, wanted.bytes);
  if (grant.bytes != 0) return acquire(grant, request, wanted.kind);
  gathered_.spares().release(false);
  if (const Acquired taken = take_anywhere(request); taken.taken) return taken;
  return gathered_.make_last(request);
}

Acquired Growth::acquire(const Grant& grant, const Request& request, os::PageKind kind) {
  const Acquired acquired = new_regions_.acquire(grant, request, kind);
  store_.budget.shared().record_pinned();
  if (acquired.taken) return acquired;
  for (const bool pinned : {true, false}) gathered_.spares().release(pinned);
  return take_anywhere(request);
}

Acquired Growth::take_anywhere(const Request& request) {
  return {nullptr, store_.depots.take(request, Depots::Where::kAnywhere)};
}

Taken Growth::grow_sparse(size_t size, size_t alignment, int node) {
  const Request request{size, alignment, RegionUse::kBlocks, node};
  Acquired acquired;
  {
    Locked hold(store_.mutex());
    const Grant grant = store_.budget.ask_unpinned(RegionKind::kSparse, size, size);
    if (grant.bytes == 0) return {};
    acquired = new_regions_.acquire(grant, request, populator_.huge_pages().chosen());
  }
  populator_.make_ready(acquired, 0);
  return acquired.taken;
}

void Growth::release_sparse(uintptr_t base) {
  Locked hold(store_.mutex());
  Region* const region = store_.regions.find(pointer(base));
  if (region == nullptr || region->sealed) return;
  const size_t length = region->length;
  // Only if all of it is free.
  if (!store_.depots.take_at(pointer(region->base), length)) return;
  store_.live.remove(region->use, length);
  store_.budget.charges().release(RegionKind::kSparse, length);
  os::close(pointer(region->base), length);
  mover_.mappings().note_closed();
  publisher_.note_closed(region);
  const bool is_kept = store_.observers.any_of(
      [&](const RegionObserver& observer) { return !observer.has_let_go(*region); });
  if (!is_kept) maker_.reuse_addresses(*region);
}

bool Growth::reserve(size_t bytes, Message* why) {
  Request request{os::page_ceil(bytes), os::page_size(), RegionUse::kExtents,
                  store_.placement.node_here()};
  request.pinned = true;
  Acquired acquired;
  {
    Locked hold(store_.mutex());
    const Grant grant = store_.budget.ask_pinned(request.size, request.size);
    warnings_.warn_of_ledger();
    if (grant.bytes >= request.size)
      acquired = new_regions_.acquire(grant, request, plan(request, RegionKind::kPinned).kind);
    store_.budget.shared().record_pinned();
    if (!acquired.taken) store_.budget.shared().ledger().say_who_holds(why);
  }
  if (!acquired.taken) return false;
  (void)populator_.populate(*acquired.region, PagesFor::kNow);
  populator_.make_ready(acquired, request.size);
  return ok(store_.depots.give(*acquired.region, acquired.region->node, acquired.taken.address,
                               request.size));
}

bool Growth::is_worth_moving(size_t size) {
  if (size < gathering_policy_.least_block()) return false;
  Locked hold(store_.mutex());
  return gathering_policy_.has_time_to_move(size);
}

bool Growth::may_move_block(uintptr_t address, size_t size) {
  Locked hold(store_.mutex());
  return gathered_.may_move_block({address, size});
}

// What stays unused of a huge page at the end would be split when the block moves on.
RegionPlan Growth::plan_move(const Assembly::Block& block, const Request& request) {
  const Region& from = *store_.regions.find(pointer(block.address));
  const bool at_once = populator_.is_to_come_at_once(from);
  const os::PageKind kind = populator_.huge_pages().kind_for_growing(
      from.page_kind, request.size, store_.budget.charges().held(), at_once, store_.regions,
      store_.marks);
  RegionPlan plan = SparePages::plan(block, request, kind, at_once);
  if (kind != os::PageKind::kBase) {
    const uintptr_t end = block.address + plan.bytes;
    plan.bytes += os::align_up(end, os::page_size_of(kind)) - end;
  }
  return plan;
}

void* Growth::move_block(uintptr_t address, size_t old_size, const Request& request) {
  const Assembly::Block block{address, old_size};
  Acquired acquired;
  {
    Locked hold(store_.mutex());
    if (!gathered_.may_move_block(block)) return nullptr;
    acquired = gathered_.move_block(block, request, plan_move(block, request));
    if (acquired.taken) store_.live.remove(request.use, old_size);
  }
  populator_.make_ready(acquired, 0);
  return acquired.taken.address;
}

}  // namespace rdmalloc
