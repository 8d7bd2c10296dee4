// The heap that jemalloc's hooks stand on: the window, its regions, the free extents of all arenas
// and the budget, put together. One per process, constant-initialised, so that it works before any
// constructor has run.
//
//   allocate: extent pool -> (none fits) budget -> window -> place, populate, lock -> publish
//   release:  back into the extent pool, pages untouched
//
// Everything runs inside malloc, perhaps with locks of jemalloc held: it allocates nothing, throws
// nothing and makes plain system calls only.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "allocator/budget.h"
#include "allocator/counters.h"
#include "allocator/extent_pool.h"
#include "allocator/mutex.h"
#include "allocator/options.h"
#include "allocator/os/topology.h"
#include "allocator/region_maker.h"
#include "allocator/region_observer.h"
#include "allocator/region_table.h"
#include "allocator/window.h"

namespace rdmalloc {

struct HeapCounters {
  size_t live = 0;
  size_t live_exposed = 0;  // of it
  size_t peak_live = 0;
  size_t peak_held = 0;
  size_t free_extents = 0;
  size_t largest_free = 0;
  uint64_t acquire_ns = 0;
  size_t metadata = 0;
};

class Heap {
 public:
  constexpr Heap() = default;
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  // Reads options and limits and reserves the window. Called once, before the first allocate(),
  // while no other thread can be in malloc.
  void boot();
  bool booted() const { return booted_.load(std::memory_order_acquire); }

  // An extent of `size` bytes, a page multiple, for jemalloc; at `new_addr` exactly unless that is
  // null. In: *zero says that it must read as zero; out: that it does. Null: no memory.
  void* allocate(void* new_addr, size_t size, size_t alignment, bool* zero);

  // Acquires so much more pinned memory at once, in one region, for allocations to come. False:
  // that cannot be had, and nothing happened.
  bool reserve(size_t bytes);

  // True when allocate() would have to acquire memory for this. A guess: other threads take too.
  bool must_grow(size_t size, size_t alignment, bool zero);

  // Takes an extent, or any part of some, back. False: refused, the caller keeps it.
  bool release(void* address, size_t size);

  // Exposed memory: extents that jemalloc never hears of, from regions of their own, pinned by this
  // process or not given at all. Called outside jemalloc, with no lock held. Sizes are page
  // multiples and not 0; alignment is a power of two, a page at least.
  void* allocate_exposed(size_t size, size_t alignment);
  // Bytes of the live exposed extent that starts at this address; 0: there is none.
  size_t exposed_size(const void* address);
  // Makes it shorter, or longer where it lies. False: it has no room to grow; nothing changed.
  bool resize_exposed(void* address, size_t size);
  // False: no live exposed extent starts at this address.
  bool release_exposed(void* address);

  const Region* find(const void* pointer) const { return regions_.find(pointer); }
  bool contains(const void* pointer) const { return window_.contains(pointer); }

  // Tells the observer of every region there is, and from then on of every new one. Once: nothing
  // happens when it is attached already.
  Status attach(RegionObserver* observer);

  // What all observers have registered.
  RegistrationCounters registrations();

  // See Counters. The first outside malloc, the other perhaps under the growth lock.
  void begin_phase(const char* name);
  void note_registrations(uint64_t domains, uint64_t registered, uint64_t registered_pinned);
  // The page of now: another one once it is shared.
  const CounterPage& counter_page();

  const Options& options() const { return options_; }
  const Window& window() const { return window_; }
  const RegionTable& regions() const { return regions_; }
  const Budget& budget() const { return budget_; }
  // `kept`: bytes of extents that arenas keep though nothing in them is live. The peak of what is
  // live is taken when the heap grows, kept extents counted, and here, without: no malloc or free
  // pays for it.
  HeapCounters counters(size_t kept = 0);
  bool forked() const { return forked_.load(std::memory_order_relaxed); }

  // Around fork, in this order relative to jemalloc's own handlers: see fork.cpp.
  void before_fork();
  void after_fork_in_parent();
  void after_fork_in_child();

  // Checks pools, regions and sums against each other: linear, for tests.
  bool validate();

 private:
  static constexpr size_t kMaxObservers = 8;

  // What was taken from a pool: the first `dirty` bytes were handed out before, the rest is zero.
  struct Taken {
    void* address = nullptr;
    size_t dirty = 0;
    explicit operator bool() const { return address != nullptr; }
  };

  // An extent to be had, from a pool or by growing.
  struct Request {
    size_t size;
    size_t alignment;
    int node;
    bool exposed = false;
    bool pinned = false;  // or not at all
  };

  // Where to look for it: in the node's own pinned regions, or wherever it may lie.
  enum class Where : uint8_t { kBest, kAnywhere };

  Taken find_extent(void* new_addr, size_t size, size_t alignment, bool must_zero);
  Taken take_or_grow(const Request& request);
  Taken take(const Request& request, Where where);
  bool is_sparse(size_t size, bool zero) const;
  Taken take_at(void* address, size_t size);
  Taken take_from(ExtentPool& pool, size_t size, size_t alignment);
  Taken take_sparse(size_t size, size_t alignment);
  Taken hand_out(void* address, size_t size);
  void note_given_back(size_t size);
  void share_counters();

  // growth.cpp
  size_t next_step(size_t held) const;
  size_t wanted(const Request& request) const;
  Taken grow(const Request& request);
  Region make(Grant grant, const Request& request);
  Taken acquire(Grant grant, const Request& request);
  bool prepare(Region* region);
  Region* publish(const Region& region);
  void warn_of_ledger();
  void warn_of_overflow();

  // exposed.cpp
  uint32_t* live_exposed(const void* address) const;
  void put_back_exposed(const Region& region, void* address, size_t size);
  void retire_inherited();
  bool are_live_exposed_valid() const;

  ExtentPool& pool_of(const Region& region);
  int node_here() const;

  std::atomic<bool> booted_{false};
  std::atomic<bool> forked_{false};
  bool several_nodes_ = false;
  bool warned_ = false;  // of overflow
  bool warned_of_ledger_ = false;
  Options options_;
  Window window_;
  RegionTable regions_{window_};
  Budget budget_;
  RegionMaker maker_{window_, budget_, options_};
  uint64_t sparse_from_ = 0;
  uint64_t counters_from_ = 0;

  Mutex growth_{Rank::kGrowth};  // one thread at a time acquires; guards budget, window, observers
  RegionObserver* observers_[kMaxObservers] = {};
  std::atomic<size_t> observer_count_{0};  // read without the lock, too: observers stay
  size_t exposed_held_ = 0;                // bytes in exposed regions
  uint64_t ask_again_from_ = 0;            // ns; nothing could be pinned until then

  Mutex pool_{Rank::kPool};  // guards the pools, the sums below and Region::fresh_from
  ExtentPool pinned_[os::kMaxNodes];
  ExtentPool overflow_;
  ExtentPool sparse_;
  ExtentPool exposed_[os::kMaxNodes];
  size_t live_ = 0;
  size_t live_exposed_ = 0;  // of it
  size_t retired_ = 0;       // free, but for nobody: exposed.cpp
  size_t live_pages_bytes_ = 0;
  size_t peak_live_ = 0;
  size_t peak_held_ = 0;
  Counters counters_;  // for others to read
  std::atomic<uint64_t> acquire_ns_{0};
};

// The process's heap.
extern constinit Heap heap;

}  // namespace rdmalloc
