// What system calls of the program's own do to the heap's pages. It may unmap them, map something
// else over them, or move them away: then they are retired, as if they had been gathered: lookups
// refuse them, and nobody is given them again, freed or not. Or it may take its right to them away:
// then they stay what they are, no device is given them, and whoever frees them has them opened.
//
// Called around these calls, by any thread, outside malloc; the growth lock is not held over them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "allocator/pages/growth.h"

namespace rdmalloc {

class ProgramHoles {
 public:
  constexpr ProgramHoles(const PageStore& store, Growth& growth) : store_(store), growth_(growth) {}
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
    size_t lost = 0;          // bytes that were the heap's, and are not any more
    bool has_shut = false;    // some of them are shut, and are lost when the call has been made
    bool is_pending = false;  // neither end() nor undo() has seen it
    size_t runs = 0;          // of what was some block's: it can be made the heap's again
    Run taken[kMostRuns];
  };

  // Before the call: from here on nobody finds these pages, or is given them.
  Hole begin(uintptr_t base, size_t length) EXCLUDES(growth_lock, depot_lock);
  // After it. The user is told once what `call` did.
  void end(const Hole& hole, const char* call) EXCLUDES(growth_lock, depot_lock);
  // Instead: the kernel refused it, and all is as it was. What was free stays retired, and so does
  // what lies between more holes than are kept in mind.
  void undo(const Hole& hole) EXCLUDES(growth_lock, depot_lock);

  // The program may not read or write them any more, or may again.
  void shut(uintptr_t base, size_t length) EXCLUDES(growth_lock);
  void open(uintptr_t base, size_t length) EXCLUDES(growth_lock);
  // The same, by whoever frees them: opens what is shut, or retires it.
  void reopen(uintptr_t base, size_t length) EXCLUDES(growth_lock, depot_lock);

  // In a child of fork: the calls of its parent's other threads are not made here.
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
  void settle() REQUIRES(growth_lock);
  void regain(const Run& run) REQUIRES(growth_lock);
  size_t take_free(uintptr_t from, uintptr_t to) EXCLUDES(depot_lock);
  size_t claim(const Region& region, uintptr_t from, uintptr_t to) REQUIRES(growth_lock)
      EXCLUDES(depot_lock);
  uintptr_t first_block(const Region& region, uintptr_t from) const;
  void note(const Region& region) REQUIRES(growth_lock);
  void tell(const Hole& hole, const char* call);

  const PageStore& store_;
  Growth& growth_;
  size_t pending_ GUARDED_BY(growth_lock) = 0;  // holes whose call is being made
  std::atomic<bool> any_{false};
  std::atomic<bool> has_told_{false};
  std::atomic<size_t> lost_{0};
};

}  // namespace rdmalloc
