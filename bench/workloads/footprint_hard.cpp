// Patterns that are hard for an allocator that keeps its pages: blocks that outgrow every hole,
// sizes that span six orders of magnitude, and phases that cannot reuse what the previous one left.
#include <span>

#include "bench/workloads/footprint.h"

namespace rdmalloc::bench::footprint {
namespace {

constexpr size_t kMost = 1'000'000;
Block table[kMost];
size_t used = 0;

void put(size_t size) { table[used++] = allocate(size); }

void release_all() {
  for (Block& block : std::span(table, used)) release(&block);
  used = 0;
}

// The last block takes its place.
void release_any(Random* random) {
  Block& block = table[random->below(used)];
  release(&block);
  block = table[--used];
}

// Adds a new block, after freeing as many old ones as needed to stay at the level.
void put_within(Random* random, size_t level, size_t size) {
  while (used != 0 && live() + size > level) release_any(random);
  put(size);
}

}  // namespace

// Writes, because otherwise the table would consist of zero pages.
void touch_table() {
  for (Block& block : table) block.size = 1;
  for (Block& block : table) block.size = 0;
}

// V: four vectors grow in turn by half with realloc, from 64 KiB to 64 MiB, four times.
void four_vectors() {
  constexpr size_t kGoal = 64 * kMiB;
  for (int round = 0; round < 4; ++round) {
    for (int i = 0; i < 4; ++i) put(64 * kKiB);
    while (table[0].size < kGoal) {
      const size_t size = std::min(table[0].size / 2 * 3, kGoal);
      for (Block& vector : std::span(table, used)) grow(&vector, size);
    }
    release_all();
  }
}

// M: sizes from 16 B to 64 MiB; random ones are freed to stay at 200 MiB.
void wide_mix() {
  Random random(8);
  for (int step = 0; step < 5000; ++step) {
    put_within(&random, 200 * kMiB, random.spread(16, 64 * kMiB));
  }
  release_all();
}

// P: a million small objects, all freed; four of 30 MiB, all freed; 800 of 100 to 200 KB, all
// freed; three times over.
void freed_phases() {
  Random random(9);
  for (int round = 0; round < 3; ++round) {
    while (used < kMost) put(random.between(32, 232));
    release_all();
    while (used < 4) put(30 * kMiB);
    release_all();
    while (used < 800) put(random.between(100'000, 200'000));
    release_all();
  }
}

// B: 300 blocks of 1 to 101 MiB; random ones are freed to stay at 400 MiB.
void big_blocks() {
  Random random(10);
  for (int step = 0; step < 300; ++step) {
    put_within(&random, 400 * kMiB, random.between(kMiB, 101 * kMiB));
  }
  release_all();
}

}  // namespace rdmalloc::bench::footprint
