// All depots of the heap: for pinned pages one for each use and NUMA node, for pages that could not
// be pinned one for each use, and one for sparse pages.
//
// Runs inside malloc. Each depot has its own lock, and only fork holds two at once.
#pragma once

#include <cstddef>
#include <cstdint>

#include "allocator/os/topology.h"
#include "allocator/pages/depot.h"
#include "allocator/pages/live_bytes.h"
#include "allocator/pages/pin_pause.h"
#include "allocator/pages/region_table.h"

namespace rdmalloc {

// A request for pages, served from a depot or by growing.
struct Request {
  size_t size;       // bytes, a page multiple
  size_t alignment;  // a power of two, a page at least
  RegionUse use;
  int node;
  bool pinned = false;  // only pinned pages will do
};

class Depots {
 public:
  constexpr Depots(const RegionTable& regions, LiveBytes& live, const PinPause& pin_pause)
      : regions_(regions), live_(live), pin_pause_(pin_pause) {}
  Depots(const Depots&) = delete;
  Depots& operator=(const Depots&) = delete;

  void boot(bool several_nodes);

  // kBest: from the node's own pinned pages. kAnyNode: from any node's. kAnywhere: also from pages
  // that are not pinned, if the request allows it, which is best while nothing more can be pinned.
  enum class Where : uint8_t { kBest, kAnyNode, kAnywhere };
  Taken take(const Request& request, Where where) EXCLUDES(depot_lock);
  bool has(const Request& request, Where where) EXCLUDES(depot_lock);
  Taken take_sparse(size_t size, size_t alignment) EXCLUDES(depot_lock);

  // Takes exactly this range, if it is free.
  Taken take_at(void* address, size_t size) EXCLUDES(depot_lock);

  // Gives a range, any part of what was taken, back to the depot of its region's kind and of its
  // node. kNoMemory: nothing changed.
  Status give(const Region& region, int node, void* address, size_t size) EXCLUDES(depot_lock);

  // The same, and take(request, kBest), at once where one depot serves both. If it fails, nothing
  // is taken, either.
  Status exchange(const Region& region, int node, void* address, size_t size,
                  const Request& request, Taken* taken) EXCLUDES(depot_lock);

  // Adds a new region, of which the first `taken` bytes are its creator's. After prepare().
  bool prepare(const Region& region) EXCLUDES(depot_lock) { return of(region).prepare(); }
  // The next `kept` bytes wait for that to grow.
  void add(Region* region, size_t taken, size_t kept) EXCLUDES(depot_lock);
  // The depot for its new pages.
  Depot& of(const Region& region) { return of(region, region.node); }
  // The depot for those of its pages that lie on that node.
  Depot& of(const Region& region, int node);
  Depot& of(RegionUse use, int node, bool is_pinned) {
    return is_pinned ? pinned_[node][index(use)] : overflow_[index(use)];
  }

  // How often threads had to wait for each other where such a request is served from.
  uint64_t waits(const Request& request) const {
    return pinned_[request.node][index(request.use)].waits();
  }

  int nodes() const { return nodes_; }

  // In a child of fork: exposed pages that its parent had free are no longer pinned.
  void abandon_exposed() EXCLUDES(depot_lock);

  // All locks, for fork and for tests: in loops, which the analysis cannot follow.
  void lock_all() ACQUIRE(depot_lock) NO_THREAD_SAFETY_ANALYSIS;
  void unlock_all() RELEASE(depot_lock) NO_THREAD_SAFETY_ANALYSIS;

  // The locks that visit() needs are its caller's to hold.
  template <typename Visit>
  void for_each(Visit visit) NO_THREAD_SAFETY_ANALYSIS {
    for (size_t use = 0; use < kRegionUses; ++use) {
      for (int node = 0; node < nodes_; ++node) visit(pinned_[node][use]);
      visit(overflow_[use]);
    }
    visit(sparse_);
  }

 private:
  static size_t index(RegionUse use) { return static_cast<size_t>(use); }

  const RegionTable& regions_;
  LiveBytes& live_;
  const PinPause& pin_pause_;
  int nodes_ = 1;
  Depot overflow_[kRegionUses];
  Depot sparse_;
  // Last, and by node: a machine with one node touches no more than the beginning.
  Depot pinned_[os::kMaxNodes][kRegionUses];
};

}  // namespace rdmalloc
