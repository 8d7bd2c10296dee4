#include "allocator/engine/front_cache.h"

#include <stdlib.h>

#include <algorithm>
#include <atomic>
#include <new>
#include <span>

#include "allocator/engine/blocks.h"
#include "allocator/engine/jemalloc.h"
#include "allocator/os/cpu_clock.h"

namespace rdmalloc::engine {

constinit Borders borders;

namespace {

constinit FrontCache not_yet;  // for threads that have not used one
constinit FrontCache never;    // for those that shall have none

// A program of small objects mallocs a few larger ones, too.
constexpr uint32_t kMallocsBefore = 512;

std::atomic<size_t> caches{0};

size_t held() { return heap.budget().charges().held(); }

size_t of_each_thread(size_t bytes) {
  return bytes / std::max<size_t>(caches.load(std::memory_order_relaxed), 1);
}

// Of other objects than big ones: above it, their classes may no longer grow.
constexpr size_t kShareOfSmall = 2;
constexpr size_t kLeastOfSmall = size_t{2} << 20;

size_t most_of_small() { return std::max(kLeastOfSmall, of_each_thread(held() / kShareOfSmall)); }

// Of big ones, all threads together: a share of what is held, or so much, where that is little of
// what may be held and pinned.
constexpr size_t kShareOfBig = 8;
constexpr uint64_t kLeastOfBig = uint64_t{64} << 20;
constexpr uint64_t kShareOfMemory = 16;
constexpr uint64_t kShareOfPinned = 4;
// At most, where addresses are few.
constexpr uint64_t kShareOfWindow = 64;

size_t most_of_big() {
  const Budget& budget = heap.budget();
  const uint64_t least = std::min({kLeastOfBig, budget.memory().cap() / kShareOfMemory,
                                   budget.pin_limit().bytes() / kShareOfPinned});
  const uint64_t most = std::max(least, held() / kShareOfBig);
  return of_each_thread(std::min(most, heap.window().size() / kShareOfWindow));
}

// After so many big objects that it had no room for, a thread makes some.
constexpr uint32_t kRefusals = 16;

// Big objects are kept while at least half of the mallocs find one. That is judged each time that
// so many have found none; if it does not pay, so many mallocs do not look before the next try.
constexpr uint32_t kMissesToJudge = 1024;
constexpr uint32_t kLeastPassed = 8192;
constexpr uint32_t kMostPassed = 1 << 17;
// In a thread that is slow, or new.
constexpr uint32_t kFirstPassed = 64;

// From one malloc of such a size to the next, of the thread's CPU time.
constexpr uint64_t kSlowNs = 4000;
constexpr uint32_t kMallocsBetween = 64;  // looks at the clock, at least

enum class State : uint8_t { kNotYet, kOn, kNever };
std::atomic<State> state{State::kNotYet};
std::atomic<uint32_t> first_mallocs{0};

bool is_on() { return state.load(std::memory_order_acquire) == State::kOn; }

// An object that a cache knows of is never freed by a thread that does not look: who got it from
// another thread knows of what that one knew.
void turn_on() {
  Locked hold(heap.store().mutex());
  if (state.load(std::memory_order_relaxed) != State::kNotYet) return;
  __atomic_store_n(&borders.front, heap.window().size(), __ATOMIC_RELAXED);
  __atomic_store_n(&borders.small, 0, __ATOMIC_RELAXED);
  state.store(State::kOn, std::memory_order_release);
}

// Moves the border below each new region of blocks before anyone gets memory from it. For pointers
// that a thread has before it hears of the region, the old border gives the same answer.
class Border final : public RegionObserver {
 public:
  void on_acquire(const Region& region) noexcept override {
    const uintptr_t offset = region.base - borders.base;
    if (region.use == RegionUse::kExtents || offset >= borders.ordinary) return;
    __atomic_store_n(&borders.ordinary, offset, __ATOMIC_RELAXED);
    if (borders.small != 0) __atomic_store_n(&borders.small, offset, __ATOMIC_RELAXED);
  }
  void on_hole(const Region& region) noexcept override {
    state.store(State::kNever, std::memory_order_relaxed);
    __atomic_store_n(&borders.front, 0, __ATOMIC_RELAXED);
    if (region.use != RegionUse::kExtents) return;
    __atomic_store_n(&borders.ordinary, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&borders.small, 0, __ATOMIC_RELAXED);
  }
  void on_fork_child() noexcept override { caches.store(1, std::memory_order_relaxed); }
};
constinit Border border;

}  // namespace

thread_local constinit FrontCache* front = &not_yet;

void take_borders(Heap& from) {
  borders.base = from.window().base();
  borders.ordinary = borders.small = from.window().size();
  borders.slots = reinterpret_cast<uintptr_t>(from.store().front_table.slots()) -
                  (borders.base >> FrontTable::kUnitShift) * sizeof(FrontTable::Slot);
  const bool would_hide = !je_opt_tcache || je_opt_prof || je_opt_zero || je_opt_junk_alloc ||
                          je_opt_junk_free || je_opt_utrace || je_opt_xmalloc;
  if (would_hide) state.store(State::kNever, std::memory_order_relaxed);
  (void)from.publisher().attach(&border);  // the first to attach, so there is room
}

// Its memory is jemalloc's, which tells when the thread ends.
void FrontCache::start() {
  front = &never;
  void* const memory = je_malloc(sizeof(FrontCache));
  if (memory == nullptr) return;
  if (!je_tsd_tls) return je_free(memory);
  front = new (memory) FrontCache;
  for (unsigned i = 0; i < kClasses; ++i) {
    front->bins_[i].big = i < kFirstBig ? 0 : size_of(i);
    front->bins_[i].most = i < kFirstBig;
  }
  front->computed_ns_ = os::thread_cpu_ns();
  caches.fetch_add(1, std::memory_order_relaxed);
  front->set_room();
  front->pass_next_ = kLeastPassed;
  front->pass(kFirstPassed);
}

bool FrontCache::is_kept() { return front != &not_yet && front != &never; }

bool FrontCache::is_fast() {
  uint32_t mallocs = fills_;
  for (const Bin& bin : bins_) mallocs += bin.taken;
  const uint32_t since = mallocs - mallocs_then_;
  if (since < kMallocsBetween) return is_fast_;
  const uint64_t now = os::thread_cpu_ns();
  is_fast_ = now - computed_ns_ <= kSlowNs * since;
  computed_ns_ = now;
  mallocs_then_ = mallocs;
  return is_fast_;
}

// A malloc found nothing in this class.
void FrontCache::note_miss(unsigned number) {
  ++fills_;
  if (was_full_[number]) {
    was_full_[number] = false;
    widen(bins_[number]);
  }
  if (number < kFirstBig) return;
  if (!keeps_big_) {
    try_big();
  } else if (++big_misses_ == kMissesToJudge) {
    judge_big();
  }
}

void FrontCache::try_big() {
  if (!is_fast()) return pass(kFirstPassed);
  keeps_big_ = true;
  is_judging_ = false;
  big_misses_ = 0;
  for (Bin& bin : big_bins()) bin.most = 1;
}

void FrontCache::keep_no_big(uint32_t mallocs) {
  keeps_big_ = false;
  for (Bin& bin : big_bins()) limit(bin, 0);
  pass(mallocs);
}

// Whether keeping big objects pays. The first time it only begins to count: there were none yet.
void FrontCache::judge_big() {
  uint32_t taken = 0;
  for (const Bin& bin : big_bins()) taken += bin.taken;
  const uint32_t hits = taken - big_taken_;
  big_taken_ = taken;
  big_misses_ = 0;
  if (!is_judging_) {
    is_judging_ = true;
  } else if (hits >= kMissesToJudge) {
    pass_next_ = kLeastPassed;
  } else {
    keep_no_big(pass_next_);
    pass_next_ = std::min(2 * pass_next_, kMostPassed);
  }
}

void FrontCache::pass(uint32_t mallocs) {
  to_pass_ = mallocs;
  fills_ += mallocs;
}

// Kept in the classes from the first on, without the last.
size_t FrontCache::bytes(unsigned first, unsigned last) const {
  size_t sum = 0;
  for (unsigned i = first; i < last; ++i) sum += size_t{bins_[i].count} * size_of(i);
  return sum;
}

void FrontCache::set_room() {
  const size_t most = most_of_big();
  const size_t kept = bytes(kFirstBig, kClasses);
  room_ = most > kept ? most - kept : 0;
}

// It was full, and is empty now.
void FrontCache::widen(Bin& bin) {
  if (!is_fast()) return keep_least();
  if (bin.big != 0) {
    set_room();
  } else if (bytes(0, kFirstBig) > most_of_small()) {
    return;
  }
  bin.most = std::min(2 * bin.most, kMost);
}

// Gives half of them back, where the thread keeps too much.
void FrontCache::narrow(Bin& bin) {
  if (bin.most <= 1 || bytes(0, kFirstBig) / 2 <= most_of_small()) return;
  limit(bin, bin.most / 2);
}

// The next class of big objects that has any gives half of them back, so that those of sizes that
// are no longer malloc'ed do not keep the room of others.
void FrontCache::make_room() {
  if (++refused_ % kRefusals != 0) return;
  set_room();
  if (room_ != 0) return;
  const std::span<Bin> bins = big_bins();
  for (size_t i = 0; i < bins.size(); ++i) {
    Bin& bin = bins[next_to_cut_++ % bins.size()];
    if (bin.count != 0) return cut(bin, bin.count / 2);
  }
}

void* FrontCache::fill(size_t size) {
  const bool counts = state.load(std::memory_order_relaxed) == State::kNotYet;
  if (counts && first_mallocs.fetch_add(1, std::memory_order_relaxed) >= kMallocsBefore) turn_on();
  const bool on = is_on();
  if (on && front == &not_yet) start();
  const unsigned number = class_of(size);
  Bin& bin = front->bins_[number];
  if (on && is_kept()) front->note_miss(number);
  const bool knows = on && bin.most != 0;
  const size_t whole = knows ? size_of(number) : size;
  const auto allocate = [&] {
    return size > largest_small ? allocate_block(whole, 1, je_opt_zero) : je_malloc(size);
  };
  void* object = allocate();
  // Also if this thread keeps nothing: others may have given something back meanwhile.
  if (object == nullptr) {
    empty();
    object = allocate();
  }
  // A program's own hooks may place jemalloc's objects elsewhere.
  const uintptr_t offset = reinterpret_cast<uintptr_t>(object) - borders.base;
  if (knows && offset < heap.window().size()) {
    entry_of(object).store(number + 1, std::memory_order_relaxed);
  }
  return object;
}

void FrontCache::give_slowly(void* object, Entry known) {
  const Entry number = known - 1;
  if (number >= kClasses || !is_aligned(object)) die("free", object);
  if (front == &not_yet) start();
  if (front->give(object, known, entry_of(object))) return;
  Bin& bin = front->bins_[number];
  give_back(object);
  if (bin.most == 0) return;
  if (bin.count < bin.most) return front->make_room();
  front->was_full_[number] = true;
  if (bin.big == 0) front->narrow(bin);
}

void FrontCache::forget(const char* call, const void* object) {
  const Entry known = known_of(object);
  if (known == 0) [[likely]]
    return;
  if ((known & FrontTable::kCached) != 0) die(call, object);
  entry_of(object).store(0, std::memory_order_relaxed);
}

void FrontCache::give_back(void* object) {
  entry_of(object).store(0, std::memory_order_relaxed);
  if (heap.blocks().is_in_blocks(reinterpret_cast<uintptr_t>(object))) {
    free_block(object);
  } else {
    je_free(object);
  }
}

// Gives back what is beyond that many. Freeing one may call this again.
void FrontCache::cut(Bin& bin, unsigned count) {
  while (bin.count > count) {
    room_ += bin.big;
    give_back(bin.objects[--bin.count]);
  }
}

// It keeps no more than that from now on.
void FrontCache::limit(Bin& bin, unsigned most) {
  bin.most = most;
  cut(bin, most);
}

void FrontCache::keep_least() {
  for (Bin& bin : std::span(bins_).first(kFirstBig)) limit(bin, std::min(bin.most, 1U));
  keep_no_big(kFirstPassed);
}

void FrontCache::empty() {
  for (Bin& bin : front->bins_) front->cut(bin, 0);
}

void FrontCache::end() {
  FrontCache* const mine = is_kept() ? front : nullptr;
  front = &never;
  if (mine == nullptr) return;
  for (Bin& bin : mine->bins_) mine->limit(bin, 0);
  je_free(mine);
  caches.fetch_sub(1, std::memory_order_relaxed);
}

void FrontCache::add_to_figures() {
  if (!is_kept()) return;
  uint64_t* allocated = nullptr;
  uint64_t* deallocated = nullptr;
  size_t size = sizeof allocated;
  if (je_mallctl("thread.allocatedp", &allocated, &size, nullptr, 0) != 0 ||
      je_mallctl("thread.deallocatedp", &deallocated, &size, nullptr, 0) != 0) {
    return;
  }
  for (unsigned i = 0; i < kOfJemalloc; ++i) {
    const Bin& bin = front->bins_[i];
    const uint64_t taken = bin.taken - front->seen_[i].taken;
    *allocated += taken * size_of(i);
    // What was given back is in its figures already.
    *deallocated += (taken + bin.count - front->seen_[i].count) * size_of(i);
    front->seen_[i] = {bin.count, bin.taken};
  }
}

}  // namespace rdmalloc::engine
