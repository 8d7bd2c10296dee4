// Waiting for a word to change, without a lock and without malloc: works inside malloc and in a
// forked child. Within one process only.
#pragma once

#include <atomic>
#include <cstdint>

namespace rdmalloc::os {

// Sleeps while the word is `expected`; may return early. The caller looks again.
void wait_while(const std::atomic<uint32_t>& word, uint32_t expected);

// The same, at most for so long.
void wait_while_for(const std::atomic<uint32_t>& word, uint32_t expected, uint64_t ns);

void wake_all(const std::atomic<uint32_t>& word);

}  // namespace rdmalloc::os
