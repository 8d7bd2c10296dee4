// The building blocks of bench_footprint_workload's patterns: plain malloc blocks that are touched
// at once, and the sum of the live bytes.
#pragma once

#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <random>
#include <vector>

namespace rdmalloc::bench::footprint {

constexpr size_t kKiB = 1024;
constexpr size_t kMiB = 1024 * kKiB;

struct Block {
  void* address = nullptr;
  size_t size = 0;
};

struct Bytes {
  size_t live = 0;
  size_t peak = 0;
};
inline Bytes bytes;

inline size_t live() { return bytes.live; }
inline size_t peak_live() { return bytes.peak; }

inline void add_live(size_t size) {
  bytes.live += size;
  bytes.peak = std::max(bytes.peak, bytes.live);
}

inline Block allocate(size_t size) {
  void* address = malloc(size);
  if (address == nullptr) abort();
  memset(address, 1, size);
  add_live(size);
  return {address, size};
}

// Does nothing to an empty block.
inline void release(Block* block) {
  free(block->address);
  bytes.live -= block->size;
  *block = {};
}

inline void grow(Block* block, size_t size) {
  auto* address = static_cast<char*>(realloc(block->address, size));
  if (address == nullptr) abort();
  memset(address + block->size, 1, size - block->size);
  add_live(size - block->size);
  *block = {address, size};
}

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  size_t below(size_t bound) { return engine_() % bound; }
  size_t between(size_t low, size_t high) { return low + below(high - low + 1); }
  // Sizes with a uniform logarithm: equally many per doubling.
  size_t spread(size_t low, size_t high) {
    const double unit = static_cast<double>(engine_() >> 11) * 0x1.0p-53;
    return static_cast<size_t>(
        static_cast<double>(low) *
        std::pow(static_cast<double>(high) / static_cast<double>(low), unit));
  }

 private:
  std::mt19937_64 engine_;
};

// The patterns that are hard for an allocator that keeps its pages (footprint_hard.cpp). Their
// blocks are in a static table, which does not count towards the memory of the malloc under test
// once touch_table() has made it resident.
void touch_table();
void four_vectors();
void wide_mix();
void freed_phases();
void big_blocks();

}  // namespace rdmalloc::bench::footprint
