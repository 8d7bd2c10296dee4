#pragma once

#include <stdint.h>

namespace rdmalloc::shm {

// What last refused room to the calling thread, for it to wait for: a list of fragments, or
// kPeer plus the peer that it sent to. Kept per thread, because otherwise one thread could make
// another miss that there is room again.
struct Starved {
  enum : uint32_t { kNothing = 0, kEager, kLarge, kPeer };
  uint64_t channel;  // its number: another channel may come to lie where it was
  uint32_t by;
};
extern thread_local Starved starved;

}  // namespace rdmalloc::shm
