// Waiting for a word to change, without a lock and without malloc: works inside malloc and in a
// forked child. Within one process only.
#pragma once

#include <atomic>
#include <cstdint>

namespace rdmalloc::os {

// Sleeps while the word is `expected`; may return early, so the caller checks again.
void wait_while(const std::atomic<uint32_t>& word, uint32_t expected);

// The same, for the given time at most.
void wait_while_for(const std::atomic<uint32_t>& word, uint32_t expected, uint64_t ns);

// Sleeps for about so long. No cancellation point, unlike nanosleep.
inline void sleep_for(uint64_t ns) {
  const std::atomic<uint32_t> nothing{0};
  wait_while_for(nothing, 0, ns);
}

void wake_all(const std::atomic<uint32_t>& word);

// Waits until the word is as wanted, for about a second at most: a driver's work may take long or
// hang.
template <typename IsWanted>
void wait_a_second(const std::atomic<uint32_t>& word, IsWanted is_wanted) {
  constexpr uint64_t kStepNs = 1'000'000;
  constexpr int kMostSteps = 1000;
  for (int i = 0; i < kMostSteps; ++i) {
    const uint32_t seen = word.load();
    if (is_wanted(seen)) return;
    wait_while_for(word, seen, kStepNs);
  }
}

}  // namespace rdmalloc::os
