#include "allocator/pages/gathered_regions.h"

#include <algorithm>

#include "allocator/os/clock.h"
#include "allocator/os/cpu_clock.h"

namespace rdmalloc {
namespace {

// As many times what is wanted is looked at to find pages that somebody has touched.
constexpr size_t kLookedAt = 4;

RegionUse other_than(RegionUse use) {
  return use == RegionUse::kExtents ? RegionUse::kBlocks : RegionUse::kExtents;
}

}  // namespace

// The node's free memory that may serve the request: of any use, except that exposed regions serve
// exposed requests only, and those nothing else.
size_t GatheredRegions::free_of(const Request& request, int node, bool pinned) const {
  const size_t own = store_.depots.of(request.use, node, pinned).free_bytes();
  if (request.use == RegionUse::kExposed) return own;
  return own + store_.depots.of(other_than(request.use), node, pinned).free_bytes();
}

// Takes pieces for the request out of one node's depots. Depots of the request's own use come
// first, and give whole runs, so that no scraps stay behind; those of other uses give no more than
// is missing. Exposed regions serve exposed requests only, and those take from nothing else.
size_t GatheredRegions::collect_of(const Request& request, int node, size_t missing, bool pinned,
                                   Gathering::Way way) {
  Depot& own = store_.depots.of(request.use, node, pinned);
  size_t got = gathering_.collect(own, missing, SIZE_MAX, way);
  if (request.use != RegionUse::kExposed && got < missing) {
    Depot& other = store_.depots.of(other_than(request.use), node, pinned);
    got += gathering_.collect(other, missing - got, missing - got, way);
  }
  return got;
}

// Takes from other nodes only if more than enough is held; otherwise their memory stays where it
// is.
bool GatheredRegions::collect(const Request& request, size_t target, bool pinned,
                              Gathering::Way way) {
  const size_t before = gathering_.pieces().bytes();
  const size_t missing = target > before ? target - before : 0;
  const bool is_anywhere = pinned && policy_.is_ample(request.size);
  const int nodes = is_anywhere ? store_.depots.nodes() : 1;
  size_t free = 0;
  for (int i = 0; i < nodes; ++i) free += free_of(request, nth_node(request, i), pinned);
  if (!policy_.is_worth_gathering(missing, free)) return false;
  size_t got = 0;
  for (int i = 0; i < nodes && got < missing; ++i) {
    got += collect_of(request, nth_node(request, i), missing - got, pinned, way);
  }
  return policy_.is_enough(got);
}

// After collect(). The longest runs are often what was acquired last and nobody has touched yet:
// then looks further for some that take memory.
bool GatheredRegions::collect_touched(const Request& request, size_t target, bool pinned,
                                      Gathering::Way way) {
  Pieces& pieces = gathering_.pieces();
  if (pieces.are_touched()) return true;
  (void)collect(request, kLookedAt * target, pinned, way);
  return pieces.keep_touched(target);
}

Acquired GatheredRegions::gather(const Request& request, const RegionPlan& plan, bool pinned,
                                 Worth worth) {
  const size_t target = policy_.amount_to_gather(request, plan.bytes);
  if (!policy_.may_gather(request, target, publisher_.slots_in_use())) return {};
  const uint64_t started = os::thread_cpu_ns();
  using Way = Gathering::Way;
  Acquired acquired;
  if (gathering_.best_way() == Way::kRenew) {
    acquired = gather_by(request, plan, target, pinned, worth, Way::kRenew);
  }
  if (!acquired.taken) acquired = gather_by(request, plan, target, pinned, worth, Way::kMove);
  policy_.note_gathering(request, os::thread_cpu_ns() - started);
  return acquired;
}

Acquired GatheredRegions::gather_by(const Request& request, const RegionPlan& plan, size_t target,
                                    bool pinned, Worth worth, Gathering::Way way) {
  const bool is_any = worth == Worth::kAll || policy_.may_move_untouched();
  if (!collect(request, target, pinned, way) ||
      (!is_any && !collect_touched(request, target, pinned, way))) {
    gathering_.pieces().put_back();
    return {};
  }
  return way == Gathering::Way::kMove ? assemble(request, plan, nullptr)
                                      : renew(request, plan.kind);
}

// Takes pieces however small. False: there is not enough, and nothing is collected.
bool GatheredRegions::collect_last(const Request& request, bool pinned, Gathering::Way way) {
  size_t free = 0;
  for (int node = 0; node < store_.depots.nodes(); ++node) free += free_of(request, node, pinned);
  if (free < request.size) return false;
  for (const RegionUse use : {request.use, other_than(request.use)}) {
    if (request.use == RegionUse::kExposed && use != request.use) continue;
    for (int i = 0; i < store_.depots.nodes(); ++i) {
      const size_t got = gathering_.pieces().bytes();
      if (got >= request.size) return true;
      Depot& depot = store_.depots.of(use, nth_node(request, i), pinned);
      (void)gathering_.collect_all(depot, request.size - got, way);
    }
  }
  if (gathering_.pieces().bytes() >= request.size) return true;
  gathering_.pieces().put_back();
  return false;
}

Acquired GatheredRegions::make_last(const Request& request) {
  if (request.alignment > Window::kGranule) return {};
  const bool may_overflow = request.use != RegionUse::kExposed && !request.pinned;
  const auto first = gathering_.best_way();
  const auto second =
      first == Gathering::Way::kMove ? Gathering::Way::kRenew : Gathering::Way::kMove;
  for (const auto way : {first, second}) {
    for (const bool pinned : {true, false}) {
      if ((!pinned && !may_overflow) || !collect_last(request, pinned, way)) continue;
      const RegionPlan exact{request.size, os::PageKind::kBase};
      const Acquired made = way == Gathering::Way::kMove ? assemble(request, exact, nullptr)
                                                         : renew(request, os::PageKind::kBase);
      if (made.taken) return made;
    }
  }
  return {};
}

// Moving would need more mappings than are allowed: gives the collected pages back to the kernel
// and gets new ones, fewer if too much is idle.
Acquired GatheredRegions::renew(const Request& request, os::PageKind kind) {
  if (!publisher_.has_slot()) {
    gathering_.pieces().put_back();
    return {};
  }
  const bool is_pinned = gathering_.model().locked;
  const size_t given = gathering_.pieces().give_up(
      mover_, [this](Region* region, uintptr_t address, size_t size)
                  REQUIRES(growth_lock) { publisher_.note_given_up(region, address, size); });
  policy_.note_gathered(request, given);
  const size_t wanted = policy_.amount_to_renew(request, given);
  const Grant grant = is_pinned ? store_.budget.ask_pinned(request.size, wanted)
                                : store_.budget.ask_overflow(request.size, wanted);
  const Acquired acquired =
      grant.bytes == 0 ? Acquired{} : new_regions_.acquire(grant, request, kind);
  store_.budget.shared().record_pinned();
  return acquired;
}

// Moves the collected pages, and adds new pages for the rest, at fresh addresses. If nothing is
// taken, either nothing happened or the pages that did move are a region of free pages.
Acquired GatheredRegions::assemble(const Request& request, const RegionPlan& plan,
                                   const Assembly::Block* block) {
  if (!publisher_.has_slot()) {
    gathering_.pieces().put_back();
    return {};
  }
  const uint64_t started = os::now_ns();
  const auto left = [this](Region* region, uintptr_t address, size_t size)
                        REQUIRES(growth_lock) { publisher_.note_gathered(region, address, size); };
  const Assembly::Result made = assembly_.build(request, plan, block, left);
  Acquired acquired;
  if (made.region.length != 0) {
    if (block == nullptr) policy_.note_gathered(request, made.region.length - made.fresh);
    const size_t rest = os::less(made.region.length, request.size);
    const size_t kept = block != nullptr && made.fresh != 0 ? rest : std::min(rest, plan.room);
    acquired = publisher_.publish(made.region, made.charged, request, kept);
    acquired.new_from = made.region.end() - (block != nullptr ? made.fresh : 0);
    mover_.mappings().note_region(made.region, made.fresh);
    store_.books.note_acquiring(os::now_ns() - started);
  } else {
    warnings_.warn_of_window(request.size);
  }
  store_.budget.shared().record_pinned();
  return acquired;
}

bool GatheredRegions::may_move_block(const Assembly::Block& block) const {
  return policy_.may_move_block(publisher_.slots_in_use()) &&
         gathering_.may_move(block.address, block.size);
}

Acquired GatheredRegions::move_block(const Assembly::Block& block, const Request& request,
                                     const RegionPlan& plan) {
  const uint64_t started = os::thread_cpu_ns();
  const bool pinned = store_.regions.find(pointer(block.address))->kind == RegionKind::kPinned;
  spares_.settle(block);
  spares_.settle_all(pinned);
  gathering_.pieces().add_block(block.address, block.size);
  (void)collect(request, request.size + plan.room, pinned, Gathering::Way::kMove);
  const Acquired acquired = assemble(request, plan, &block);
  policy_.note_moving(block.size, os::thread_cpu_ns() - started);
  return acquired;
}

}  // namespace rdmalloc
