// The order of regcache's locks (README.md tells why it is so): debug builds abort where a thread
// leaves it. The heap's locks, which are inside of all of these, have allocator/mutex.h.
//
// Each library that is preloaded has an order of its own: a shim holds none of its locks while it
// calls another library, librdmalloc.so included.
#pragma once

#include <cstdint>

namespace rdmalloc {

// Outermost first. A thread that has come to one of them may go on to those below only, and to
// another driver from a driver.
//   kOuter    may be held while a driver is called, and so is never asked for inside of one
//   kDriver   not a lock: this thread is in an operation of a backend that may call other libraries
//   kMembers  a pool's threads
//   kLeaf     a table: nothing but malloc is called, and no other of these taken, while it is held
enum class LockRank : uint8_t { kNone, kOuter, kDriver, kMembers, kLeaf };

#ifdef NDEBUG
inline LockRank enter_rank(LockRank) { return LockRank::kNone; }
inline void leave_rank(LockRank) {}
inline void assert_linker_may_be_called() {}
#else
inline constinit thread_local LockRank entered_rank = LockRank::kNone;

// The rank to leave to.
inline LockRank enter_rank(LockRank rank) {
  const LockRank outer = entered_rank;
  const bool is_in_order = outer < rank || (outer == rank && rank == LockRank::kDriver);
  if (!is_in_order) __builtin_trap();
  entered_rank = rank;
  return outer;
}
inline void leave_rank(LockRank outer) { entered_rank = outer; }

// No lock of ours is held, but for those that may be while a driver is called: of a driver's own
// calls of the dynamic linker nobody keeps count either.
inline void assert_linker_may_be_called() {
  if (entered_rank != LockRank::kNone && entered_rank != LockRank::kDriver) __builtin_trap();
}
#endif

}  // namespace rdmalloc
