#include "allocator/engine/front_cache.h"

#include <stdlib.h>

#include <algorithm>
#include <atomic>
#include <new>

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

// What a thread keeps when its classes may no longer grow: this share of what the heap holds,
// divided by the threads that have a cache, or this much.
constexpr size_t kShareKept = 2;
constexpr size_t kLeastKept = size_t{2} << 20;
std::atomic<size_t> caches{0};

size_t most_bytes() {
  const size_t threads = std::max<size_t>(caches.load(std::memory_order_relaxed), 1);
  return std::max(kLeastKept, heap.budget().charges().held() / kShareKept / threads);
}

// From one malloc of such a size to the next, of the thread's CPU time.
constexpr uint64_t kSlowNs = 4000;
constexpr uint32_t kPassed = 16;

enum class State : uint8_t { kNotYet, kOn, kNever };
std::atomic<State> state{State::kNotYet};
std::atomic<uint32_t> mallocs{0};

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
  borders.entries = from.store().front_table.entries();
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
  for (Bin& bin : front->bins_) bin.most = kFirst;
  front->computed_ns_ = os::thread_cpu_ns();
  caches.fetch_add(1, std::memory_order_relaxed);
}

bool FrontCache::is_fast() {
  uint32_t mallocs = fills_;
  for (const Bin& bin : bins_) mallocs += bin.taken;
  const uint64_t now = os::thread_cpu_ns();
  const uint64_t slow = kSlowNs * (mallocs - mallocs_then_);
  const bool is_slow = now - computed_ns_ > slow;
  computed_ns_ = now;
  mallocs_then_ = mallocs;
  to_pass_ = is_slow ? kPassed : 0;
  return !is_slow;
}

// It was full, and is empty now.
void FrontCache::grow(Bin& bin) {
  bin.was_full = 0;
  if (to_pass_ != 0) {
    --to_pass_;
  } else if (!is_fast()) {
    cut_all(kFirst);
  } else if (bytes() <= most_bytes()) {
    bin.most = std::min(kMost, 2 * bin.most);
  }
}

// Gives half of it back, where the thread keeps too much.
void FrontCache::shrink(Bin& bin) {
  if (bin.most <= kFirst || bytes() / 2 <= most_bytes()) return;
  bin.most /= 2;
  cut(bin, bin.most);
}

void* FrontCache::fill(size_t size) {
  const bool counts = state.load(std::memory_order_relaxed) == State::kNotYet;
  if (counts && mallocs.fetch_add(1, std::memory_order_relaxed) >= kMallocsBefore) turn_on();
  const bool on = is_on();
  if (on && front == &not_yet) start();
  const unsigned number = class_of(size);
  Bin& bin = front->bins_[number];
  const bool knows = on && bin.most != 0;
  if (knows) ++front->fills_;
  if (bin.was_full != 0) front->grow(bin);
  const size_t whole = knows ? size_of(number) : size;
  const auto allocate = [&] {
    return size > largest_small ? allocate_block(whole, 1, je_opt_zero) : je_malloc(size);
  };
  void* object = allocate();
  if (object == nullptr && front->bytes() != 0) {
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
  if (front->give(object, known)) return;
  Bin& bin = front->bins_[number];
  give_back(object);
  if (bin.most == 0) return;
  bin.was_full = 1;
  front->shrink(bin);
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
  while (bin.count > count) give_back(bin.objects[--bin.count]);
}

// Each class keeps no more than that from now on.
void FrontCache::cut_all(unsigned most) {
  for (Bin& bin : bins_) {
    bin.most = std::min(bin.most, most);
    cut(bin, bin.most);
  }
}

void FrontCache::empty() {
  for (Bin& bin : front->bins_) cut(bin, 0);
}

void FrontCache::end() {
  FrontCache* const mine = front;
  front = &never;
  if (mine == &not_yet || mine == &never) return;
  mine->cut_all(0);
  je_free(mine);
  caches.fetch_sub(1, std::memory_order_relaxed);
}

void FrontCache::add_to_figures() {
  if (front == &not_yet || front == &never) return;
  uint64_t* allocated = nullptr;
  uint64_t* deallocated = nullptr;
  size_t size = sizeof allocated;
  if (je_mallctl("thread.allocatedp", &allocated, &size, nullptr, 0) != 0 ||
      je_mallctl("thread.deallocatedp", &deallocated, &size, nullptr, 0) != 0) {
    return;
  }
  for (unsigned i = 0; size_of(i) <= LargeBlocks::kLargestSmall; ++i) {
    const Bin& bin = front->bins_[i];
    const uint64_t taken = bin.taken - front->seen_[i].taken;
    *allocated += taken * size_of(i);
    // What was given back is in its figures already.
    *deallocated += (taken + bin.count - front->seen_[i].count) * size_of(i);
    front->seen_[i] = {bin.count, bin.taken};
  }
}

size_t FrontCache::bytes() const {
  size_t sum = 0;
  for (unsigned i = 0; i < kClasses; ++i) sum += bins_[i].count * size_of(i);
  return sum;
}

}  // namespace rdmalloc::engine
