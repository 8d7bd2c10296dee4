// What the program's own system calls do to the heap's pages. If it unmaps them, maps something
// else over them, or moves them away, they are retired, as gathered pages are: lookups refuse them,
// and they are never handed out again, freed or not. If it makes them inaccessible (mprotect), they
// are shut: they remain the heap's, no device gets them, and freeing them makes them accessible
// again.
//
// Called before and after these calls, by any thread, outside malloc. The growth lock is not held
// during the call.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "allocator/pages/page_store.h"
#include "allocator/pages/publisher.h"

namespace rdmalloc {

class ProgramHoles {
 public:
  constexpr ProgramHoles(PageStore& store, Publisher& publisher)
      : store_(store), publisher_(publisher) {}
  ProgramHoles(const ProgramHoles&) = delete;
  ProgramHoles& operator=(const ProgramHoles&) = delete;

  // Pages of the window that a call is about to destroy.
  struct Run {
    uintptr_t from;
    uintptr_t to;
  };
  struct Hole {
    static constexpr size_t kMostRuns = 16;

    uintptr_t from = 0;
    uintptr_t to = 0;
    size_t lost = 0;          // bytes that no longer are the heap's
    bool has_shut = false;    // some of them are shut; they are lost once the call has been made
    bool is_pending = false;  // end() or undo() is still to come
    size_t runs = 0;          // of pages of blocks, which undo() can return to the heap
    Run taken[kMostRuns];
  };

  // Before the call: from now on no lookup finds these pages, and no malloc returns them. For a
  // call of the program's, after FreedBlocks::drain(), because cached blocks have no owner.
  Hole begin(uintptr_t base, size_t length) EXCLUDES(growth_lock, depot_lock);
  // After the call. Warns once of what `call` did.
  void end(const Hole& hole, const char* call) EXCLUDES(growth_lock, depot_lock);
  // Instead of end(), if the kernel refused the call: restores the pages. Free pages stay retired,
  // and so does what lies beyond the runs that a Hole can hold.
  void undo(const Hole& hole) EXCLUDES(growth_lock, depot_lock);

  // The program made them inaccessible, or accessible again.
  void shut(uintptr_t base, size_t length) EXCLUDES(growth_lock);
  void open(uintptr_t base, size_t length) EXCLUDES(growth_lock);
  // For freed pages: makes shut ones accessible again, or retires them.
  void reopen(uintptr_t base, size_t length) EXCLUDES(growth_lock, depot_lock);

  // In a child of fork, where the calls of the parent's other threads will not happen.
  void forget_pending() REQUIRES(growth_lock) { pending_ = 0; }

  // Any page of the range.
  bool has(const void* address, size_t length) const {
    return any_.load(std::memory_order_relaxed) &&
           store_.marks.has_hole(reinterpret_cast<uintptr_t>(address), length);
  }
  // Bytes, ever.
  size_t lost_bytes() const { return lost_.load(std::memory_order_relaxed); }

 private:
  template <typename Visit>
  void for_each_part(uintptr_t from, uintptr_t to, Visit visit) REQUIRES(growth_lock);
  void lose(Region* region, uintptr_t from, uintptr_t to, Hole* hole) REQUIRES(growth_lock)
      EXCLUDES(depot_lock);
  size_t take_away(Region* region, uintptr_t from, uintptr_t to) REQUIRES(growth_lock)
      EXCLUDES(depot_lock);
  void end_call() REQUIRES(growth_lock);
  void regain(const Run& run) REQUIRES(growth_lock);
  size_t take_free(uintptr_t from, uintptr_t to) EXCLUDES(depot_lock);
  size_t claim(const Region& region, uintptr_t from, uintptr_t to) REQUIRES(growth_lock)
      EXCLUDES(depot_lock);
  uintptr_t first_block(const Region& region, uintptr_t from) const;
  void note(const Region& region) REQUIRES(growth_lock);
  void tell(const Hole& hole, const char* call);

  PageStore& store_;
  Publisher& publisher_;
  size_t pending_ GUARDED_BY(growth_lock) = 0;  // holes whose call is being made
  std::atomic<bool> any_{false};
  std::atomic<bool> has_told_{false};
  std::atomic<size_t> lost_{0};
};

}  // namespace rdmalloc
