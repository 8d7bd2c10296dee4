// Well-known allocator workloads, rewritten from their published descriptions. What matters is the
// shape of each: who frees what another thread allocated, in which order, and which objects share a
// cache line. The figures are not those of the original programs.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <atomic>
#include <vector>

#include "bench/workloads/in_threads.h"
#include "bench/workloads/meter.h"

namespace rdmalloc::bench {
namespace {

// Small sizes are more frequent than large ones: requests are roughly uniform in the logarithm.
size_t skewed(Random& random, size_t low, size_t high) {
  const size_t most = random.between(low, high);
  return random.between(low, most);
}

void write_over(void* object, size_t size, size_t times) {
  auto* bytes = static_cast<volatile char*>(object);
  for (size_t i = 0; i < times; ++i) {
    for (size_t at = 0; at < size; ++at) bytes[at] = static_cast<char>(bytes[at] + 1);
  }
}

// Berger's two tests of false sharing: eight-byte objects that are allocated, written and freed
// over and over. An allocator that gives two threads parts of one cache line makes them slow.
constexpr size_t kTiny = 8;
void write_tiny_objects(size_t rounds) {
  constexpr size_t kWrites = 10;
  for (size_t i = 0; i < rounds; ++i) {
    void* object = malloc(kTiny);
    memset(object, 0, kTiny);
    write_over(object, kTiny, kWrites);
    free(object);
  }
}

// Slots through which threads pass objects to whichever thread comes next.
class Exchange {
 public:
  explicit Exchange(size_t count) : slots_(count) {}
  ~Exchange() {
    for (auto& slot : slots_) free(slot.load(std::memory_order_relaxed));
  }
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  void* swap(Random& random, void* object) {
    return slots_[random.below(slots_.size())].exchange(object, std::memory_order_acq_rel);
  }

 private:
  std::vector<std::atomic<void*>> slots_;
};

// sh6bench and sh8bench: generations of objects. Of each generation, a third is freed in allocation
// order, a third in reverse order, and a third outlives the next two generations.
void churn_generations(Random& random, size_t largest, size_t rounds) {
  constexpr size_t kObjects = 3'000;
  Slots generation(kObjects, nullptr);
  std::vector<Slots> survivors(3);
  for (size_t round = 0; round < rounds; ++round) {
    for (void*& object : generation) {
      object = malloc(skewed(random, 1, largest));
      *static_cast<char*>(object) = 1;
    }
    const auto third = generation.begin() + kObjects / 3;
    const auto last = third + kObjects / 3;
    for (auto at = generation.begin(); at != third; ++at) free(*at);
    for (auto at = last; at != third;) free(*--at);
    Slots& oldest = survivors[round % survivors.size()];
    free_all(oldest);
    oldest.assign(last, generation.end());
  }
  for (Slots& left : survivors) free_all(left);
}

}  // namespace

// Lever and Boreham's xmalloc-test: some threads only allocate, others only free.
void run_xmalloc(const Arguments& arguments, Meter& meter) {
  constexpr size_t kBatch = 4'096;
  const size_t rounds = arguments.repeat(300);
  // Each producer has a consumer; they exchange batches at a barrier, which costs no CPU time.
  std::vector<Slots> batches(kThreads, Slots(kBatch, nullptr));
  pthread_barrier_t barrier;
  pthread_barrier_init(&barrier, nullptr, kThreads);
  meter.start();
  in_threads(kThreads, [&](size_t self) {
    const bool produces = self % 2 == 0;
    Random random(self + 1);
    for (size_t round = 0; round <= rounds; ++round) {
      // While one batch of a pair is filled, the other is emptied.
      Slots& batch = batches[(self & ~size_t{1}) + (round + (produces ? 0 : 1)) % 2];
      if (produces && round < rounds) {
        for (void*& object : batch) {
          object = malloc(skewed(random, 8, 1024));
          keep(object);
        }
      } else if (!produces) {
        free_all(batch);
      }
      pthread_barrier_wait(&barrier);
    }
  });
  meter.stop();
  pthread_barrier_destroy(&barrier);
}

// cache-thrash: each thread writes to its own small objects.
void run_cache_thrash(const Arguments& arguments, Meter& meter) {
  const size_t rounds = arguments.repeat(400'000);
  meter.start();
  in_threads(kThreads, [=](size_t) { write_tiny_objects(rounds); });
  meter.stop();
}

// cache-scratch: one thread allocates the first object of every thread, side by side. An allocator
// that gives such an object back to the thread that freed it keeps the line shared.
void run_cache_scratch(const Arguments& arguments, Meter& meter) {
  const size_t rounds = arguments.repeat(400'000);
  Slots first(kThreads, nullptr);
  for (void*& object : first) object = malloc(kTiny);
  meter.start();
  in_threads(kThreads, [&](size_t self) {
    free(first[self]);
    write_tiny_objects(rounds);
  });
  meter.stop();
}

// sh6bench: one thread, small objects.
void run_sh6(const Arguments& arguments, Meter& meter) {
  const size_t rounds = arguments.repeat(1'000);
  Random random(1);
  meter.start();
  churn_generations(random, 1'000, rounds);
  meter.stop();
}

// sh8bench: several threads, larger objects.
void run_sh8(const Arguments& arguments, Meter& meter) {
  const size_t rounds = arguments.repeat(200);
  meter.start();
  in_threads(kThreads, [=](size_t self) {
    Random random(self + 1);
    churn_generations(random, 4'000, rounds);
  });
  meter.stop();
}

// mstress, from mimalloc's tests: threads come and go, keep some objects, and pass others to any
// thread through a table.
void run_mstress(const Arguments& arguments, Meter& meter) {
  const size_t generations = arguments.repeat(20);
  Exchange table(1'000);
  meter.start();
  for (size_t generation = 0; generation < generations; ++generation) {
    in_threads(kThreads, [&](size_t self) {
      Random random(generation * kThreads + self + 1);
      Slots kept(500, nullptr);
      for (size_t i = 0; i < 25'000; ++i) {
        // One in a hundred is a hundred times as large.
        const size_t size =
            random.below(100) == 0 ? skewed(random, 800, 50'000) : skewed(random, 8, 500);
        void* object = malloc(size);
        *static_cast<char*>(object) = 1;
        const size_t what = random.below(4);
        if (what == 0) {
          free(table.swap(random, object));
        } else {
          std::swap(object, kept[random.below(kept.size())]);
          free(object);
        }
      }
      free_all(kept);
    });
  }
  meter.stop();
}

// rptest, rpmalloc's benchmark: sizes up to 16 KB. Each step frees some of the thread's objects and
// allocates as many new ones; now and then a batch goes to another thread to be freed.
void run_rptest(const Arguments& arguments, Meter& meter) {
  constexpr size_t kBatch = 100;
  const size_t steps = arguments.repeat(3'000);
  std::vector<std::atomic<Slots*>> handed(kThreads);
  meter.start();
  in_threads(kThreads, [&](size_t self) {
    Random random(self + 1);
    Slots mine(3'000, nullptr);
    for (size_t step = 0; step < steps; ++step) {
      const size_t from = random.below(mine.size() - kBatch);
      for (size_t i = 0; i < kBatch; ++i) {
        void*& object = mine[from + i];
        free(object);
        object = malloc(skewed(random, 16, 16'000));
        *static_cast<char*>(object) = 1;
      }
      if (step % 8 != 0) continue;
      auto* batch = new Slots(mine.end() - kBatch, mine.end());
      std::fill(mine.end() - kBatch, mine.end(), nullptr);
      batch = handed[(self + 1) % kThreads].exchange(batch, std::memory_order_acq_rel);
      if (batch != nullptr) free_all(*batch);
      delete batch;
    }
    free_all(mine);
  });
  for (auto& left : handed) {
    Slots* batch = left.exchange(nullptr);
    if (batch != nullptr) free_all(*batch);
    delete batch;
  }
  meter.stop();
}

}  // namespace rdmalloc::bench
