#include "allocator/mutex.h"

#ifndef NDEBUG

namespace rdmalloc {
namespace {
// initial-exec: the general model may call malloc at a thread's first use.
[[gnu::tls_model("initial-exec")]] thread_local Rank held_rank = Rank::kNone;
}  // namespace

void assert_rank_above(Rank rank) {
  if (held_rank >= rank) __builtin_trap();
}

Rank set_rank(Rank rank) {
  const Rank before = held_rank;
  held_rank = rank;
  return before;
}

void assert_no_rank() {
  if (held_rank != Rank::kNone) __builtin_trap();
}

}  // namespace rdmalloc

#endif
