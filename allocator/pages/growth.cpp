#include "allocator/pages/growth.h"

#include <string.h>

#include <initializer_list>

#include "allocator/message.h"
#include "allocator/os/clock.h"
#include "allocator/os/limits.h"

namespace rdmalloc {
namespace {

// The first regions are small, because most processes are: /bin/true needs about 100 KiB.
constexpr size_t kFirstStep = size_t{128} << 10;
constexpr size_t kLargestStep = size_t{1} << 30;
// Blocks' pages come by touch, so that only addresses and budget are ahead of need; and free runs
// of different regions never join.
constexpr size_t kFirstStepOfBlocks = size_t{16} << 20;
// Then each is a share of what is held: a large share while that is little, so that the number of
// regions stays low; a smaller one later, so that little is held ahead of need.
constexpr size_t kEarlyShare = 4;
constexpr size_t kLargestEarlyStep = size_t{4} << 20;
constexpr size_t kShare = 10;
constexpr size_t kShareOfBlocks = 16;
// Little is to spare in a heap that memory was given back to: what is missing then is missing
// because of holes, and the next gathering is cheap.
constexpr size_t kShareInChurn = 64;
constexpr size_t kLeastStepInChurn = size_t{4} << 20;

// What jemalloc's first regions are made of is used up at once: it is faulted in by one call.
constexpr size_t kPopulatedAtOnce = size_t{512} << 10;

constexpr size_t kFewGranules = 512;

// How long a refusal to pin more stands where there is free memory that is not pinned.
constexpr uint64_t kPauseNs = 1'000'000;

// Gathering: not for what is next to nothing beside what is wanted, nor for a few pages.
constexpr size_t kLeastShare = 32;
constexpr size_t kLeastGathered = size_t{64} << 10;
// What may lie idle before pages are moved: in a heap with next to nothing free every other request
// would have to be pieced together, for ever, and a moved page costs as much as a hundred mallocs
// that find a block. Less of a large heap for a large request, which is touched at greater cost.
constexpr size_t kLarge = size_t{1} << 20;
constexpr size_t kTolerated = size_t{16} << 20;
constexpr size_t kToleratedShare = 8;
constexpr size_t kToleratedShareForLarge = 32;
constexpr size_t kSmallHeap = size_t{64} << 20;

// What moves has a region of its own, and each region is a registration in every domain: with so
// many blocks are copied again, and with more nothing is gathered.
constexpr size_t kManyRegions = 2048;
constexpr size_t kMostGathered = 3072;

// New pages to spare for a block that grows by moving: a quarter of itself, so that it need not
// move at each step.
constexpr size_t kSpareOfBlock = 4;

enum Warning : uint32_t { kOfOverflow = 1, kOfLedger = 2, kOfWindow = 4 };

constexpr size_t huge_floor(size_t bytes) { return os::align_down(bytes, os::kHugePageSize); }

void* pointer(uintptr_t address) { return reinterpret_cast<void*>(address); }

Window::End end_for(RegionUse use) {
  return use == RegionUse::kExtents ? Window::End::kLow : Window::End::kHigh;
}

size_t at_least_granule(size_t alignment) {
  return alignment < Window::kGranule ? Window::kGranule : alignment;
}

}  // namespace

void Growth::boot(bool several_nodes) {
  maker_.boot(several_nodes);
  counters_from_ = store_.budget.resolve(store_.options.amount(OptionId::counters_from));
  const uint64_t choice = store_.options.choice(OptionId::gather);
  const bool is_off = choice == kGatherOff || store_.options.on(OptionId::seal);
  gathering_.boot(is_off, choice == kGatherAlways);
}

size_t Growth::next_step(RegionUse use) const {
  const size_t held = held_[static_cast<size_t>(use)];
  const size_t share = use == RegionUse::kExtents ? kShare : kShareOfBlocks;
  size_t step = held / kEarlyShare;
  if (step > kLargestEarlyStep) step = kLargestEarlyStep;
  if (step < held / share) step = held / share;
  const size_t least = use == RegionUse::kBlocks ? kFirstStepOfBlocks : kFirstStep;
  if (step < least) step = least;
  if (held > kSmallHeap && store_.depots.given() > held / kEarlyShare) {
    step = held / kShareInChurn > kLeastStepInChurn ? held / kShareInChurn : kLeastStepInChurn;
  }
  // In a window that RLIMIT_AS made small, regions below a granule would use it up.
  if (store_.window.granules() < kFewGranules && step < Window::kGranule) {
    step = Window::kGranule - os::kPageSize;
  }
  if (step > kLargestStep) step = kLargestStep;
  return os::page_ceil(step);
}

// What would be acquired for a request: a step, or its own size.
size_t Growth::wanted(const Request& request) const {
  const size_t size = request.size;
  const size_t step = next_step(request.use);
  const bool huge = store_.options.choice(OptionId::huge) != kHugeOff;
  // A request as large as the step makes a large enough region by itself. What grows by realloc
  // leaves none behind at each size: it moves.
  size_t want = size < step ? step : size;
  if (want > kLargestStep) want = size > kLargestStep ? size : kLargestStep;
  // Whole huge pages, of either kind: with a tail of base pages the kernel registers the whole
  // region page by page, in ten times the time.
  if (huge && want >= os::kHugePageSize) {
    want = huge_floor(want);
    if (want < size) want = os::align_up(size, os::kHugePageSize);
  }
  return want;
}

Taken Growth::grow(const Request& request) {
  Acquired acquired;
  {
    Locked hold(mutex());
    // Somebody else may have grown the heap while this thread waited.
    if (const Taken taken = store_.depots.take(request, Depots::Where::kBest)) return taken;
    acquired = grow_locked(request);
  }
  if (acquired.region != nullptr) make_ready(acquired.region);
  return acquired.taken;
}

Growth::Acquired Growth::grow_locked(const Request& request) {
  const bool may_overflow = request.use != RegionUse::kExposed && !request.pinned;
  const auto take_anywhere = [&] {
    return Acquired{nullptr, store_.depots.take(request, Depots::Where::kAnywhere)};
  };
  // Where nothing could be pinned a moment ago: to ask again, for each extent, would read files of
  // the kernel for each.
  const uint64_t now = os::now_ns();
  if (now < ask_again_from_ && may_overflow) {
    if (const Acquired taken = take_anywhere(); taken.taken) return taken;
  }
  // What could be moved before the kernel refused to move more may be enough, or not.
  if (const Acquired gathered = gather(request, true); gathered.taken) return gathered;
  const size_t want = wanted(request);
  Grant grant = store_.budget.ask_pinned(request.size, want);
  warn_of_ledger();
  if (grant.bytes == 0) {
    ask_again_from_ = now + kPauseNs;
    // Before asking how much memory there is, which reads such files, too.
    if (const Acquired taken = take_anywhere(); taken.taken) return taken;
    if (!may_overflow) return gather_last(request);
    if (const Acquired gathered = gather(request, false); gathered.taken) return gathered;
    grant = store_.budget.ask_overflow(request.size, want);
  }
  if (grant.bytes == 0) return gather_last(request);
  const bool hugetlb = store_.options.choice(OptionId::huge) == kHugeHugetlb;
  if (hugetlb && huge_floor(grant.bytes) >= request.size) grant.bytes = huge_floor(grant.bytes);
  const Acquired acquired = acquire(grant, request);
  store_.budget.settle();
  return acquired.taken ? acquired : take_anywhere();
}

Taken Growth::grow_sparse(size_t size, size_t alignment, int node) {
  Locked hold(mutex());
  const Grant grant = store_.budget.ask_unpinned(RegionKind::kSparse, size, size);
  if (grant.bytes == 0) return {};
  return acquire(grant, {size, alignment, RegionUse::kBlocks, node}).taken;
}

bool Growth::reserve(size_t bytes, int node) {
  Request request{os::page_ceil(bytes), os::kPageSize, RegionUse::kExtents, node};
  request.pinned = true;
  Acquired acquired;
  {
    Locked hold(mutex());
    const Grant grant = store_.budget.ask_pinned(request.size, request.size);
    warn_of_ledger();
    if (grant.bytes >= request.size) acquired = acquire(grant, request);
    store_.budget.settle();
  }
  if (!acquired.taken) return false;
  populate_in_steps(*acquired.region, store_.marks);
  make_ready(acquired.region);
  return ok(store_.depots.give(*acquired.region, acquired.taken.address, request.size));
}

bool Growth::is_tight(size_t size, size_t cached) const {
  if (gathering_.is_forced()) return false;
  const size_t held = store_.budget.held();
  const size_t idle = held - store_.depots.live() + cached;
  const auto larger = [](size_t a, size_t b) { return a > b ? a : b; };
  if (size < kLarge) return idle < larger(kTolerated, held / kToleratedShare);
  const size_t share = larger(held / kToleratedShareForLarge,
                              kTolerated / os::kPageSize * kSmallHeap / (held / os::kPageSize + 1));
  const size_t tolerated =
      share < kTolerated ? share : larger(kTolerated, held / kToleratedShareForLarge);
  return size <= tolerated && idle < tolerated;
}

bool Growth::may_gather(const Request& request, size_t target) const {
  if (request.alignment > Window::kGranule || count_regions() >= kMostGathered) return false;
  if (gathering_.is_forced()) return true;
  // jemalloc asks for little and is given a step, of which it may never use the end.
  const bool is_step = request.use == RegionUse::kExtents && request.size < target / kEarlyShare;
  return target >= kLeastGathered && !is_tight(is_step ? target / kEarlyShare : request.size, 0);
}

// Takes pieces for it out of the depots that may serve it: its own use's first; those of exposed
// regions for each other alone.
bool Growth::collect(const Request& request, bool pinned) {
  const size_t target = request.use == RegionUse::kExtents ? wanted(request) : request.size;
  const auto depot_of = [&](RegionUse use) -> Depot& {
    return pinned ? store_.depots.pinned(use, request.node) : store_.depots.overflow(use);
  };
  const bool is_exposed = request.use == RegionUse::kExposed;
  const RegionUse other =
      request.use == RegionUse::kExtents ? RegionUse::kBlocks : RegionUse::kExtents;
  Depot& own = depot_of(request.use);
  const size_t before = gathering_.collected();
  const size_t missing = target > before ? target - before : 0;
  const size_t free = own.free_bytes() + (is_exposed ? 0 : depot_of(other).free_bytes());
  // Addresses are for ever: the fewer are left, the more a gathering must bring.
  const size_t used = store_.window.size() - store_.window.left();
  const size_t enough = store_.budget.held() / 2 / (store_.window.size() / (used + 1) + 1);
  if (!gathering_.is_forced() && (free < missing / kLeastShare || free < enough)) return false;
  // Whole runs of its own, so that no scraps stay behind; of another use's, no more than is
  // missing.
  size_t got = gathering_.collect(own, missing, SIZE_MAX);
  if (!is_exposed && got < missing) {
    got += gathering_.collect(depot_of(other), missing - got, missing - got);
  }
  return got >= kLeastGathered || (gathering_.is_forced() && got != 0);
}

// A region of free pages, and new ones for what is missing.
Growth::Acquired Growth::gather(const Request& request, bool pinned) {
  const size_t want = wanted(request);
  const size_t target = request.use == RegionUse::kExtents ? want : request.size;
  if (!may_gather(request, target) || !collect(request, pinned)) {
    gathering_.put_back();
    return {};
  }
  return assemble(request, want - request.size, nullptr);
}

// No more memory may be held: what is free is pieced together, however little it is, and whatever
// it was for.
Growth::Acquired Growth::gather_last(const Request& request) {
  if (request.alignment > Window::kGranule) return {};
  const bool is_exposed = request.use == RegionUse::kExposed;
  for (const bool pinned : {true, false}) {
    if (!pinned && (is_exposed || request.pinned)) continue;
    for (const RegionUse use : {request.use, RegionUse::kBlocks, RegionUse::kExtents}) {
      const size_t got = gathering_.collected();
      if (got >= request.size || (is_exposed && use != request.use)) continue;
      Depot& depot = pinned ? store_.depots.pinned(use, request.node) : store_.depots.overflow(use);
      (void)gathering_.collect_all(depot, request.size - got);
    }
    if (gathering_.collected() >= request.size) {
      if (const Acquired gathered = assemble(request, 0, nullptr); gathered.taken) return gathered;
    }
    gathering_.put_back();
  }
  return {};
}

// Of the region that was emptied longest ago, if nobody keeps anything of it any more.
size_t Growth::find_free_slot() const {
  if (empties_ == reused_) return RegionTable::kNoSlot;
  const uint16_t slot = empty_slots_[reused_ % kMostEmpties];
  const Region& region = store_.regions[slot];
  const bool is_kept = store_.observers.any_of(
      [&](const RegionObserver& observer) { return !observer.has_let_go(region); });
  return is_kept ? RegionTable::kNoSlot : slot;
}

void Growth::note_retired(Region* region, size_t size) {
  held_[static_cast<size_t>(region->use)] -= size;
  if (!region->is_empty()) return;
  store_.observers.for_each([&](RegionObserver& observer)
                                REQUIRES(growth_lock) { (void)observer.on_retire(*region); });
  if (region->use != RegionUse::kExtents) store_.blocks.forget(region->base, region->length);
  if (empties_ - reused_ < kMostEmpties) empty_slots_[empties_++ % kMostEmpties] = region->index;
}

// How many new pages there may be beside the gathered ones; kRefused: fewer than must be.
size_t Growth::ask_fresh(const Region& region, const Request& request, size_t spare) {
  const size_t collected = gathering_.collected();
  if (request.size <= collected) return 0;
  const size_t needed = request.size - collected;
  const size_t want = needed + spare;
  const Grant grant = region.locked ? store_.budget.ask_pinned(needed, want)
                                    : store_.budget.ask_overflow(needed, want);
  return grant.bytes < needed ? kRefused : grant.bytes;
}

// Everything that can fail before the first page is moved: records, addresses, new pages.
// A block keeps its place within a huge page: so the kernel moves whole page tables.
bool Growth::lay_out(Region* region, const Request& request, size_t collected, const Block* block) {
  if (!store_.regions.has_room() && find_free_slot() == RegionTable::kNoSlot) return false;
  if (!store_.depots.prepare(*region)) return false;
  const size_t shift = block == nullptr ? 0 : block->address % Window::kGranule;
  void* const carved = store_.window.carve(
      shift + region->length, at_least_granule(request.alignment), end_for(request.use));
  if (carved == nullptr) {
    warn_of_window();
    return false;
  }
  void* const base = static_cast<char*>(carved) + shift;
  region->base = reinterpret_cast<uintptr_t>(base);
  const bool is_covered = request.use == RegionUse::kExtents || store_.blocks.cover(region->base);
  // A program's block has pages to be copied to, should the kernel refuse to move some of its own.
  const bool has_places = block == nullptr || ok(os::open(base, collected, os::PageKind::kBase));
  if (is_covered && has_places && maker_.extend(*region, collected)) return true;
  os::close(base, region->length);
  give_back_addresses(*region);
  return false;
}

void Growth::give_back_addresses(const Region& region) {
  const size_t shift = region.base % Window::kGranule;
  store_.window.give_back(pointer(region.base - shift), shift + region.length);
}

// The kernel refused to move all of it: the program's block is made whole by copying, in new pages
// that nobody was asked for.
void Growth::mend_block(const Region& region, const Block& block, size_t moved, size_t collected) {
  void* const rest = pointer(region.base + moved);
  (void)os::open(rest, collected - moved, os::PageKind::kBase);
  if (region.locked) (void)os::lock_on_fault(rest, collected - moved);
  if (moved >= block.size) return;
  memcpy(rest, pointer(block.address + moved), block.size - moved);
  const Region& left = *store_.regions.find(pointer(block.address + moved));
  (void)store_.depots.of(left).give_back(pointer(block.address + moved), block.size - moved);
}

// Puts what was collected, and new pages for the rest of the request and to spare, under fresh
// addresses. `block`: the first piece, if that is a program's, which is not lost whatever happens.
// Nothing taken: nothing happened, or what could be moved is a region of free pages.
Growth::Acquired Growth::assemble(const Request& request, size_t spare, const Block* block) {
  const uint64_t started = os::now_ns();
  const size_t collected = gathering_.collected();
  Region region = gathering_.model();
  region.use = request.use;
  region.exposed = request.use == RegionUse::kExposed;
  size_t fresh = ask_fresh(region, request, spare);
  region.length = collected + fresh;
  if (fresh == kRefused || !lay_out(&region, request, collected, block)) {
    store_.budget.settle();
    gathering_.put_back();
    return {};
  }
  const size_t moved =
      gathering_.move_to(region.base, [this](Region* left, size_t size)
                                          REQUIRES(growth_lock) { note_retired(left, size); });
  if (gathering_.lost_locks()) {
    os::unlock(pointer(region.base), region.length);
    region.locked = false;
    store_.budget.note_unlocked(moved);
  }
  size_t charged = fresh;
  if (moved < collected && block != nullptr && moved != 0) {
    mend_block(region, *block, moved, collected);
    charged += collected - moved;
  } else if (moved < collected) {
    os::close(pointer(region.base + moved), region.length - moved);
    if (moved == 0) give_back_addresses(region);
    region.length = moved;
    charged = fresh = 0;
  }
  Acquired acquired;
  if (region.length != 0) {
    region.fresh_from = region.end() - fresh;
    if (fresh != 0) store_.marks.mark_seam(region.fresh_from);
    acquired = publish(region, charged, request);
    gathering_.note_region(true, fresh != 0);
    acquire_ns_ += os::now_ns() - started;
  }
  store_.budget.settle();
  return acquired;
}

void* Growth::move_block(uintptr_t address, size_t old_size, const Request& request) {
  const Block block{address, old_size};
  Acquired acquired;
  {
    Locked hold(mutex());
    if (count_regions() >= kManyRegions || !gathering_.may_move(address, old_size)) return nullptr;
    const Region& region = *store_.regions.find(pointer(address));
    gathering_.collect_block(address, old_size);
    (void)collect(request, region.kind == RegionKind::kPinned);
    const size_t spare = os::page_ceil(request.size / kSpareOfBlock);
    acquired = assemble(request, spare, &block);
    if (acquired.taken) store_.depots.note_moved(request.use, old_size);
  }
  if (acquired.region != nullptr) make_ready(acquired.region);
  return acquired.taken.address;
}

// Zero length: no region, and nothing happened.
Region Growth::make(Grant grant, const Request& request) {
  if (!store_.regions.has_room() && find_free_slot() == RegionTable::kNoSlot) return {};
  const bool is_exposed = request.use == RegionUse::kExposed;
  const bool may_overflow = !store_.options.on(OptionId::strict) && !is_exposed && !request.pinned;
  RegionOrder order;
  order.kind = grant.kind;
  order.use = request.use;
  order.length = grant.bytes;
  order.alignment = request.alignment;
  order.node = request.node;
  order.may_overflow = may_overflow && grant.bytes == request.size;
  const Region region = maker_.make(order);
  if (region.length != 0 || grant.bytes == request.size) return region;
  // The window, the kernel or a limit may have refused only what was to spare.
  order.length = request.size;
  order.may_overflow = may_overflow;
  return maker_.make(order);
}

// New pages. Nothing taken: nothing happened.
Growth::Acquired Growth::acquire(Grant grant, const Request& request) {
  const uint64_t started = os::now_ns();
  Region region = make(grant, request);
  if (region.length == 0) {
    if (store_.window.left() < request.size + 2 * Window::kGranule) warn_of_window();
    return {};
  }
  const bool is_covered = request.use == RegionUse::kExtents || store_.blocks.cover(region.base);
  if (!is_covered || !store_.depots.prepare(region)) {
    maker_.undo(region);
    return {};
  }
  maker_.finish(&region);
  const Acquired acquired = publish(region, region.length, request);
  gathering_.note_region(false, true);
  acquire_ns_ += os::now_ns() - started;
  if (region.kind == RegionKind::kOverflow) warn_of_overflow();
  return acquired;
}

// Makes a region known, and takes the request's part of it: other threads, who need no growth lock
// to take, could use it up at once.
Growth::Acquired Growth::publish(const Region& region, size_t charged, const Request& request) {
  const size_t slot = find_free_slot();
  if (slot != RegionTable::kNoSlot) ++reused_;
  Region* const added = store_.regions.add(region, slot);
  const bool is_pinned = region.kind == RegionKind::kPinned && region.locked;
  store_.budget.charge(
      is_pinned || region.kind == RegionKind::kSparse ? region.kind : RegionKind::kOverflow,
      charged);
  held_[static_cast<size_t>(region.use)] += region.length;
  store_.observers.for_each([&](RegionObserver& observer)
                                REQUIRES(growth_lock) { observer.on_acquire(*added); });
  Acquired acquired{added, {}};
  const size_t taken = region.length < request.size ? 0 : request.size;
  if (taken != 0) acquired.taken = Depot::hand_out(added, pointer(region.base), taken);
  store_.depots.add(added, taken);
  note_books();
  return acquired;
}

size_t Growth::raise_peak_live(size_t live) {
  if (live > peak_live_.load(std::memory_order_relaxed)) {
    peak_live_.store(live, std::memory_order_relaxed);
  }
  return peak_live_.load(std::memory_order_relaxed);
}

void Growth::note_books() {
  (void)raise_peak_live(store_.depots.live());
  const size_t held = store_.budget.held();
  if (held > peak_held()) peak_held_.store(held, std::memory_order_relaxed);
  store_.counters.note_budget(store_.budget, count_regions());
  store_.counters.note_live(store_.depots.live());
  if (counters_from_ != 0 && store_.depots.live() >= counters_from_) store_.counters.share();
  store_.caches.set_held(held);
}

// Under no lock.
void Growth::make_ready(Region* region) {
  const uint64_t choice = store_.options.choice(OptionId::populate);
  const bool is_small = region->use == RegionUse::kExtents && region->length <= kPopulatedAtOnce;
  const bool is_wanted =
      choice == kPopulateNow ||
      (choice == kPopulateAuto && store_.observers.any_of([&](const RegionObserver& observer) {
        return observer.wants_pages(*region);
      }));
  if (region->kind == RegionKind::kPinned && (is_small || is_wanted)) {
    populate_in_steps(*region, store_.marks);
  }
  store_.observers.for_each([&](RegionObserver& observer) { observer.on_ready(*region); });
}

// Warns once: after its first failure the ledger is left alone.
void Growth::warn_of_ledger() {
  if (store_.budget.ledger().trouble()[0] == '\0' || !may_warn(kOfLedger)) return;
  Message().add(store_.budget.ledger().trouble()).send();
}

void Growth::warn_of_window() {
  if (!may_warn(kOfWindow)) return;
  Message message;
  message.add("rdmalloc: the window of ").add_size(store_.window.size());
  message.add(" has no addresses left for more memory; RDMALLOC_WINDOW makes it larger").send();
}

// Once for each.
bool Growth::may_warn(uint32_t of) {
  const bool is_new = (warned_ & of) == 0;
  warned_ |= of;
  return is_new && store_.options.on(OptionId::warn);
}

void Growth::warn_of_overflow() {
  const Budget& budget = store_.budget;
  // A cap of nothing is a decision, not an accident.
  if (budget.pin_limit() == 0 && budget.limited_by() == LimitedBy::kCap) return;
  if (!may_warn(kOfOverflow)) return;
  Message message;
  message.add("rdmalloc: from here on memory is not pinned: ");
  switch (budget.limited_by()) {
    case LimitedBy::kMemlock: {
      const os::LockLimit limit = os::lock_limit();
      message.add("RLIMIT_MEMLOCK is ").add_size(limit.soft).add(" (hard ").add_size(limit.hard);
      message.add("), ").add_size(budget.pinned()).add(" is pinned; raise it with ulimit -l");
      message.add(" or in limits.conf, or give CAP_IPC_LOCK");
      break;
    }
    case LimitedBy::kAvailable:
      message.add_size(budget.pinned()).add(" is pinned and too little memory is available");
      break;
    case LimitedBy::kCap:
      message.add("RDMALLOC_CAP allows ").add_size(budget.pin_limit());
      break;
    case LimitedBy::kNode:
      message.add("RDMALLOC_NODE_CAP allows ").add_size(budget.ledger().cap());
      message.add(" on this node, this process ").add_size(budget.pin_limit());
      message.add(" of it; it has ").add_size(budget.pinned());
      budget.ledger().say_who_holds(&message);
      break;
  }
  message.add(" (RDMALLOC_WARN=off silences this)").send();
}

}  // namespace rdmalloc
