#include "allocator/mutex.h"

#include <algorithm>

#include "allocator/os/relax.h"

namespace rdmalloc {

// Whoever has held it for microseconds has probably lost its processor, and may have this one.
void Mutex::wait() {
  constexpr int kPauses = 100;
  constexpr int kMostBetween = 32;
  constexpr int kYields = 8;
  int between = 1;
  for (int sum = 0; sum < kPauses; sum += between) {
    between = std::min(2 * between, kMostBetween);
    for (int i = 0; i < between; ++i) os::relax();
    if (pthread_mutex_trylock(&mutex_) == 0) return;
  }
  for (int i = 0; i < kYields && os::yield(); ++i) {
    if (pthread_mutex_trylock(&mutex_) == 0) return;
  }
  pthread_mutex_lock(&mutex_);
}

#ifndef NDEBUG

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

#endif

}  // namespace rdmalloc
