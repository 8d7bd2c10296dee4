// One allocation pattern per run, for bench_footprint: plain malloc, every byte touched, so that
// all allocated memory is resident. Prints the peak of the live memory and of what the process held
// for it.
//
//   bench_footprint_workload PATTERN
#include "bench/workloads/footprint.h"

#include <dlfcn.h>
#include <stdio.h>

#include "rdmalloc/rdmalloc.h"

namespace rdmalloc::bench::footprint {
namespace {

void release_all(std::vector<Block>* blocks) {
  for (auto& block : *blocks) release(&block);
}

// The last block takes its place.
void release_any(Random* random, std::vector<Block>* blocks) {
  Block& block = (*blocks)[random->below(blocks->size())];
  release(&block);
  block = blocks->back();
  blocks->pop_back();
}

// v: buffers that grow by half with realloc; finished ones are dropped at random.
void growing_vectors() {
  Random random(1);
  std::vector<Block> vectors(400);
  std::vector<size_t> goals(vectors.size());
  for (auto& goal : goals) goal = random.spread(4 * kKiB, 8 * kMiB);
  for (int step = 0; step < 60000; ++step) {
    const size_t i = random.below(vectors.size());
    Block& vector = vectors[i];
    if (vector.size >= goals[i]) {
      release(&vector);
      goals[i] = random.spread(4 * kKiB, 8 * kMiB);
      continue;
    }
    grow(&vector, vector.size == 0 ? 64 : vector.size / 2 * 3);
  }
  release_all(&vectors);
}

// m: sizes from 16 B to 1 MiB come and go around a level that rises and falls.
void mixed_churn() {
  Random random(2);
  std::vector<Block> blocks;
  for (int step = 0; step < 400000; ++step) {
    const double level = 160.0 + 80.0 * std::sin(step / 30000.0);
    if (live() < static_cast<size_t>(level * static_cast<double>(kMiB))) {
      blocks.push_back(allocate(random.spread(16, kMiB)));
    } else {
      release_any(&random, &blocks);
    }
  }
  release_all(&blocks);
}

void fill_and_thin(Random* random, std::vector<Block>* blocks, size_t level, size_t low,
                   size_t high) {
  const size_t goal = live() + level;
  std::vector<Block> fresh;
  while (live() < goal) fresh.push_back(allocate(random->spread(low, high)));
  // The blocks that a phase allocates first outlive it.
  const size_t kept = fresh.size() / 20;
  std::shuffle(fresh.begin() + static_cast<ptrdiff_t>(kept), fresh.end(),
               std::mt19937_64(random->below(1000)));
  for (size_t i = kept; i < fresh.size(); ++i) release(&fresh[i]);
  fresh.resize(kept);
  blocks->insert(blocks->end(), fresh.begin(), fresh.end());
}

// p: a phase of small objects, one of large ones, one of medium ones; the first twentieth of each
// survives its phase.
void phases() {
  Random random(3);
  std::vector<Block> blocks;
  for (int round = 0; round < 2; ++round) {
    fill_and_thin(&random, &blocks, 200 * kMiB, 16, 512);
    fill_and_thin(&random, &blocks, 200 * kMiB, 256 * kKiB, 4 * kMiB);
    fill_and_thin(&random, &blocks, 200 * kMiB, 2 * kKiB, 64 * kKiB);
  }
  release_all(&blocks);
}

// L: buffers of 1 to 100 MiB.
void large_buffers() {
  Random random(4);
  std::vector<Block> blocks;
  for (int step = 0; step < 400; ++step) {
    if (live() < 900 * kMiB && (blocks.empty() || random.below(100) < 55)) {
      blocks.push_back(allocate(random.between(kMiB, 100 * kMiB)));
    } else {
      release_any(&random, &blocks);
    }
  }
  release_all(&blocks);
}

// d: a fixed number of buffers whose typical size drifts upwards, like problem sizes in a sweep.
void drifting_sizes() {
  Random random(5);
  std::vector<Block> blocks(256);
  for (int step = 0; step < 30000; ++step) {
    Block& block = blocks[random.below(blocks.size())];
    release(&block);
    const auto centre =
        static_cast<size_t>(64.0 * static_cast<double>(kKiB) * std::pow(16.0, step / 30000.0));
    block = allocate(random.between(centre / 2, centre * 3 / 2));
  }
  release_all(&blocks);
}

// s: a key-value store: long-lived small values, overwritten by values of other sizes, and
// short-lived message buffers between them.
void store() {
  Random random(6);
  std::vector<Block> values(300000);
  std::vector<Block> messages(64);
  for (int step = 0; step < 1500000; ++step) {
    Block& value = values[random.below(values.size())];
    release(&value);
    const size_t high = step < 750000 ? 512 : 1024;
    value = allocate(random.spread(24, high));
    if (step % 50 == 0) {
      Block& message = messages[random.below(messages.size())];
      release(&message);
      message = allocate(random.spread(4 * kKiB, 512 * kKiB));
    }
  }
  release_all(&values);
  release_all(&messages);
}

// r: a random hundredth of all small objects survives; then large ones are allocated. No allocator
// that cannot move objects can recover the small ones' pages.
void random_survivors() {
  Random random(7);
  std::vector<Block> small;
  while (live() < 200 * kMiB) small.push_back(allocate(random.spread(16, 512)));
  for (auto& block : small) {
    if (random.below(100) != 0) release(&block);
  }
  std::vector<Block> large;
  while (live() < 200 * kMiB) large.push_back(allocate(random.spread(256 * kKiB, 4 * kMiB)));
  release_all(&large);
  release_all(&small);
}

size_t status_bytes(const char* field) {
  FILE* file = fopen("/proc/self/status", "re");
  char line[256];
  size_t kib = 0;
  while (file != nullptr && fgets(line, sizeof line, file) != nullptr) {
    if (strncmp(line, field, strlen(field)) == 0) {
      kib = strtoull(line + strlen(field), nullptr, 10);
    }
  }
  if (file != nullptr) fclose(file);
  return kib * kKiB;
}

struct Pattern {
  char name;
  void (*run)();
};

constexpr Pattern kPatterns[] = {{'v', growing_vectors},  {'m', mixed_churn},    {'p', phases},
                                 {'L', large_buffers},    {'d', drifting_sizes}, {'s', store},
                                 {'r', random_survivors}, {'V', four_vectors},   {'M', wide_mix},
                                 {'P', freed_phases},     {'B', big_blocks}};

}  // namespace
}  // namespace rdmalloc::bench::footprint

int main(int argc, char** argv) {
  using namespace rdmalloc::bench::footprint;
  for (const Pattern& pattern : kPatterns) {
    if (argc != 2 || argv[1][0] != pattern.name || argv[1][1] != '\0') continue;
    touch_table();
    const size_t before = status_bytes("VmRSS:");
    pattern.run();
    const size_t resident = status_bytes("VmHWM:") - before;
    rdm_stats stats{};
    using Get = int (*)(rdm_stats*, size_t);
    if (const auto get = reinterpret_cast<Get>(dlsym(RTLD_DEFAULT, "rdm_stats_get"))) {
      get(&stats, sizeof stats);
    }
    printf("peak_live %zu peak_resident %zu peak_held %zu regions %zu\n", peak_live(), resident,
           static_cast<size_t>(stats.peak_held_bytes), static_cast<size_t>(stats.regions));
    return 0;
  }
  fprintf(stderr, "usage: bench_footprint_workload v|m|p|L|d|s|r|V|M|P|B\n");
  return 2;
}
