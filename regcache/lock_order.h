// The order of regcache's locks (README.md says why it is so): debug builds abort if a thread
// violates it. The heap's locks, which come after all of these, are in allocator/mutex.h.
//
// Each preloaded library has an order of its own: a shim holds none of its locks while it calls
// another library, librdmalloc.so included.
#pragma once

#include <cstdint>

namespace rdmalloc {

// Outermost first. A thread that has reached one rank may go on only to those below it, and from a
// driver to another driver.
//   kOuter    may be held while a driver is called, and so is never taken inside one
//   kDriver   not a lock: this thread is in an operation of a backend that may call other libraries
//   kMembers  a pool's threads
//   kLeaf     a table: only malloc may be called, and no other of these taken, while it is held
enum class LockRank : uint8_t { kNone, kOuter, kDriver, kMembers, kLeaf };

#ifdef NDEBUG
inline LockRank enter_rank(LockRank) { return LockRank::kNone; }
inline void leave_rank(LockRank) {}
inline void assert_linker_may_be_called() {}
#else
inline constinit thread_local LockRank entered_rank = LockRank::kNone;

// Returns the rank to pass to leave_rank().
inline LockRank enter_rank(LockRank rank) {
  const LockRank outer = entered_rank;
  const bool is_in_order = outer < rank || (outer == rank && rank == LockRank::kDriver);
  if (!is_in_order) __builtin_trap();
  entered_rank = rank;
  return outer;
}
inline void leave_rank(LockRank outer) { entered_rank = outer; }

// None of our locks is held, except those that may be held while a driver is called: a driver may
// call the dynamic linker, too, and nobody checks that.
inline void assert_linker_may_be_called() {
  if (entered_rank != LockRank::kNone && entered_rank != LockRank::kDriver) __builtin_trap();
}
#endif

}  // namespace rdmalloc
