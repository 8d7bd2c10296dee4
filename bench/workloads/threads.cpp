// Small objects, several threads.
#include <pthread.h>
#include <stdlib.h>

#include <vector>

#include "bench/workloads/in_threads.h"
#include "bench/workloads/meter.h"

namespace rdmalloc::bench {
// Each thread churns its own live set.
void run_threads(const Arguments& arguments, Meter& meter) {
  const size_t steps = arguments.repeat(3'000'000);
  meter.start();
  in_threads(kThreads, [=](size_t self) {
    Slots slots(5'000, nullptr);
    Random random(self + 1);
    replace(slots, random, 1024, steps);
    free_all(slots);
  });
  meter.stop();
}

// Producers and consumers: one thread frees what another allocates. They meet at a barrier between
// turns, because spinning on a queue would be measured too.
void run_exchange(const Arguments& arguments, Meter& meter) {
  constexpr size_t kBatch = 20'000;
  const size_t rounds = arguments.repeat(200);
  Slots batches[2] = {Slots(kBatch, nullptr), Slots(kBatch, nullptr)};
  pthread_barrier_t barrier;
  pthread_barrier_init(&barrier, nullptr, 2);
  meter.start();
  in_threads(2, [&](size_t self) {
    Random random(self + 1);
    for (size_t round = 0; round < rounds; ++round) {
      for (void*& object : batches[self]) {
        object = malloc(random.between(8, 512));
        keep(object);
      }
      pthread_barrier_wait(&barrier);
      free_all(batches[1 - self]);
      pthread_barrier_wait(&barrier);
    }
  });
  meter.stop();
  pthread_barrier_destroy(&barrier);
}

// After Larson and Krishnan's server simulation: threads die and leave their objects to successors,
// which free them.
void run_larson(const Arguments& arguments, Meter& meter) {
  const size_t generations = arguments.repeat(100);
  std::vector<Slots> slots(kThreads, Slots(1'000, nullptr));
  meter.start();
  for (size_t generation = 0; generation < generations; ++generation) {
    in_threads(kThreads, [&](size_t self) {
      Random random(generation * kThreads + self + 1);
      replace(slots[(self + generation) % kThreads], random, 512, 20'000);
    });
  }
  for (Slots& mine : slots) free_all(mine);
  meter.stop();
}

}  // namespace rdmalloc::bench
